"""Reads Varlink's interface definition language and holds values against it.

A type is "bool", "int", "float", "string", "object", a name, or one of ("maybe", T), ("array", T),
("map", T), ("enum", names), ("struct", {name: T}).
"""
import re

TOKEN = re.compile(r"#[^\n]*|->|\[string\]|\[\]|[?():,]|[A-Za-z][A-Za-z0-9_.-]*|\s+|(.)")

BASIC = {"bool": bool, "int": int, "float": float, "string": str}


class Interface:
    def __init__(self, text):
        self.types, self.methods, self.errors = {}, {}, {}
        self.tokens = []
        for match in TOKEN.finditer(text):
            assert match[1] is None, f"unexpected {match[1]!r}"
            if not match[0].isspace() and not match[0].startswith("#"):
                self.tokens.append(match[0])
        self.take("interface")
        self.name = self.take()
        while self.tokens:
            self.read_member()

    def take(self, wanted=None):
        token = self.tokens.pop(0)
        assert wanted in (None, token), f"expected {wanted}, got {token}"
        return token

    def read_member(self):
        kind, name = self.take(), self.take()
        assert name[0].isupper()
        if kind == "method":
            takes = self.read_struct()
            self.take("->")
            self.methods[name] = (takes, self.read_struct())
        else:
            {"type": self.types, "error": self.errors}[kind][name] = self.read_struct()

    def read_struct(self):
        """A struct, or an enum: names without types."""
        self.take("(")
        names, fields = [], {}
        while self.tokens[0] != ")":
            names.append(self.take())
            if self.tokens[0] == ":":
                self.take(":")
                fields[names[-1]] = self.read_type()
            if self.tokens[0] != ")":
                self.take(",")
        self.take(")")
        assert len(fields) in (0, len(names))
        return ("enum", names) if names and not fields else ("struct", fields)

    def read_type(self):
        for token, kind in (("?", "maybe"), ("[]", "array"), ("[string]", "map")):
            if self.tokens[0] == token:
                self.take()
                return (kind, self.read_type())
        return self.read_struct() if self.tokens[0] == "(" else self.take()

    def check_reply(self, method, parameters):
        """Fails unless the parameters are exactly what the method is said to return."""
        self.check(parameters, self.methods[method][1], method)

    def check(self, value, kind, where):
        if not isinstance(kind, str):
            getattr(self, "check_" + kind[0])(value, kind[1], where)
        elif kind in BASIC:
            assert type(value) is BASIC[kind], f"{where}: {value!r} is no {kind}"
            assert kind != "int" or -2**63 <= value < 2**63, where
        elif kind != "object":
            self.check(value, self.types[kind], where)

    def check_maybe(self, value, kind, where):
        if value is not None:
            self.check(value, kind, where)

    def check_array(self, value, kind, where):
        assert isinstance(value, list), f"{where}: {value!r} is no array"
        for index, item in enumerate(value):
            self.check(item, kind, f"{where}[{index}]")

    def check_map(self, value, kind, where):
        assert isinstance(value, dict), f"{where}: {value!r} is no map"
        for key, item in value.items():
            self.check(item, kind, f"{where}.{key}")

    def check_enum(self, value, names, where):
        assert value in names, f"{where}: {value!r} is none of {names}"

    def check_struct(self, value, fields, where):
        assert isinstance(value, dict), f"{where}: {value!r} is no struct"
        assert set(value) <= set(fields), f"{where}: {set(value) - set(fields)} is not declared"
        for name, kind in fields.items():
            assert name in value or kind[0] == "maybe", f"{where}: {name} is missing"
            if name in value:
                self.check(value[name], kind, f"{where}.{name}")
