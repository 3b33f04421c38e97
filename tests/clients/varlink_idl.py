"""Reads Varlink's interface definition language and holds values against it.

A type is "bool", "int", "float", "string", "object", a name, or one of ("maybe", T), ("array", T),
("map", T), ("enum", names), ("struct", {name: T}).

A description is refused, with AssertionError, when libvarlink's `varlink` or `varlinkctl
validate-idl` of systemd would refuse it: the stricter rule of the two holds.
"""
import re

TOKEN = re.compile(r"#[^\n]*|->|\[string\]|\[\]|[?():,]|[A-Za-z][A-Za-z0-9_.-]*|\s+|(.)")
INTERFACE = re.compile(r"[A-Za-z](-?[A-Za-z0-9])*(\.[A-Za-z0-9](-?[A-Za-z0-9])*)+")
MEMBER = re.compile(r"[A-Z][A-Za-z0-9]*")
FIELD = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")

BASIC = {"bool": bool, "int": int, "float": float, "string": str}


class Interface:
    def __init__(self, text):
        self.types, self.methods, self.errors = {}, {}, {}
        self.tokens = []
        for match in TOKEN.finditer(text):
            assert match[1] is None, f"unexpected {match[1]!r}"
            if not match[0].isspace():
                self.tokens.append(match[0])
        self.skip_comments()
        self.take("interface")
        self.name = self.take()
        assert INTERFACE.fullmatch(self.name), f"bad interface name {self.name}"
        self.skip_comments()
        while self.tokens:
            self.read_member()
            self.skip_comments()
        for kind in (*self.types.values(), *self.errors.values(), *sum(self.methods.values(), ())):
            self.resolve(kind)

    def take(self, wanted=None):
        assert self.tokens, "the end is missing"
        token = self.tokens.pop(0)
        assert wanted in (None, token), f"expected {wanted}, got {token}"
        return token

    def skip_comments(self):
        """Comments stand only where a member or a field may begin: systemd accepts none elsewhere."""
        while self.tokens and self.tokens[0].startswith("#"):
            self.tokens.pop(0)

    def read_member(self):
        kind, name = self.take(), self.take()
        members = {"method": self.methods, "type": self.types, "error": self.errors}[kind]
        assert MEMBER.fullmatch(name), f"bad name {name}"
        for others in (self.methods, self.types, self.errors):
            assert name not in others, f"two members are called {name}"
        members[name] = self.read_fields()
        if kind == "method":
            self.take("->")
            members[name] = (members[name], self.read_fields())
            assert all(one[0] == "struct" for one in members[name]), f"{name}: an enum"
        elif kind == "error":
            assert members[name][0] == "struct", f"{name}: an enum"
        else:
            assert members[name][1], f"{name} is empty"

    def read_fields(self):
        """A struct, or an enum: names without types."""
        self.take("(")
        self.skip_comments()
        names, fields = [], {}
        while self.tokens[0] != ")" or names:
            names.append(self.take())
            assert FIELD.fullmatch(names[-1]), f"bad field name {names[-1]}"
            assert names.count(names[-1]) == 1, f"two fields are called {names[-1]}"
            if self.tokens[0] == ":":
                self.take(":")
                fields[names[-1]] = self.read_type()
            if self.tokens[0] == ")":
                break
            self.take(",")
            self.skip_comments()
        self.take(")")
        assert len(fields) in (0, len(names)), f"some of {names} have a type"
        return ("enum", names) if names and not fields else ("struct", fields)

    def read_type(self):
        """`?`, then one of `[]` and `[string]`: systemd takes no array of arrays."""
        wrap = []
        for choices in ({"?": "maybe"}, {"[]": "array", "[string]": "map"}):
            if self.tokens[0] in choices:
                wrap.append(choices[self.take()])
        if self.tokens[0] == "(":
            kind = self.read_fields()
            assert kind[1], "an empty anonymous type"
        else:
            kind = self.take()
            assert kind in BASIC or kind == "object" or MEMBER.fullmatch(kind), f"no type: {kind}"
        for outer in reversed(wrap):
            kind = (outer, kind)
        return kind

    def resolve(self, kind, anonymous=False):
        """Every named type exists; systemd does not look for them in anonymous structs."""
        if isinstance(kind, str):
            if kind not in BASIC and kind != "object":
                assert kind in self.types, f"there is no type {kind}"
                assert not anonymous, f"{kind} within an anonymous struct"
        elif kind[0] == "struct":
            for field in kind[1].values():
                inner = field
                while not isinstance(inner, str) and inner[0] in ("maybe", "array", "map"):
                    inner = inner[1]
                self.resolve(inner, anonymous or not isinstance(inner, str))

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
