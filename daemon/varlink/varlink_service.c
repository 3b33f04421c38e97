/* The interface org.varlink.service: product, version, interfaces and their descriptions. */
#include "varlink_internal.h"

#include <stdio.h>
#include <string.h>

#define SERVICE "org.varlink.service"

static const char description[] =
	"# Describes a Varlink service; every service implements it.\n"
	"interface " SERVICE "\n"
	"\n"
	"# The vendor of this service, and its interfaces.\n"
	"method GetInfo() -> (\n"
	"  vendor: string,\n"
	"  product: string,\n"
	"  version: string,\n"
	"  url: string,\n"
	"  interfaces: []string\n"
	")\n"
	"\n"
	"# The definition of one of its interfaces.\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"error InterfaceNotFound(interface: string)\n"
	"error MethodNotFound(method: string)\n"
	"# The definition has it, this version of the service does not.\n"
	"error MethodNotImplemented(method: string)\n"
	"# Missing, unknown, of the wrong type or out of range.\n"
	"error InvalidParameter(parameter: string)\n"
	"error PermissionDenied()\n"
	"# The method answers with a stream: call it with `more`.\n"
	"error ExpectedMore()\n";

void varlink_service_error(struct varlink_call *call, const char *name, const char *key,
			   const char *value)
{
	char error[64];

	snprintf(error, sizeof(error), SERVICE ".%s", name);
	varlink_error(call, error, key ? json_pack("{s:s}", key, value) : json_object());
}

void varlink_invalid_parameter(struct varlink_call *call, const char *parameter)
{
	varlink_service_error(call, "InvalidParameter", "parameter", parameter);
}

static void get_info(struct varlink_call *call, json_t *parameters)
{
	const struct varlink *v = varlink_call_userdata(call);
	const struct varlink_info *info = v->info;
	json_t *interfaces = json_array();

	(void)parameters;
	for (unsigned i = 0; i < v->interface_count; i++)
		json_array_append_new(interfaces, json_string(v->interfaces[i].interface->name));
	varlink_reply(call, json_pack("{s:s, s:s, s:s, s:s, s:o}", "vendor", info->vendor,
				      "product", info->product, "version", info->version, "url",
				      info->url, "interfaces", interfaces));
}

static void get_interface_description(struct varlink_call *call, json_t *parameters)
{
	const struct varlink *v = varlink_call_userdata(call);
	const char *name = json_string_value(json_object_get(parameters, "interface"));

	for (unsigned i = 0; i < v->interface_count; i++) {
		const struct varlink_interface *interface = v->interfaces[i].interface;

		if (strcmp(interface->name, name) == 0) {
			varlink_reply(call,
				      json_pack("{s:s}", "description", interface->description));
			return;
		}
	}
	varlink_service_error(call, "InterfaceNotFound", "interface", name);
}

static const struct varlink_parameter interface_parameter[] = {
	{ "interface", VARLINK_STRING, .optional = false },
	{ 0 },
};

static const struct varlink_method methods[] = {
	{ "GetInfo", VARLINK_READ, false, NULL, get_info },
	{ "GetInterfaceDescription", VARLINK_READ, false, interface_parameter,
	  get_interface_description },
	{ 0 },
};

const struct varlink_interface varlink_service = { SERVICE, description, methods };
