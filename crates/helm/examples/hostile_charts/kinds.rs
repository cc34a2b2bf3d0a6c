//! Charts whose author wants to hurt: what each does, and which limit has to end it.

use convoy_helm::Limit::{self, Allocated, Blocks, Depth, Nesting, Output, Regex, Steps, Text};

/// A hostile chart.
pub(crate) struct Kind {
    /// What it does.
    pub(crate) name: &'static str,
    /// The limits of which one ends it. With none it is refused in another way, or harmless in the end.
    pub(crate) ends: &'static [Limit],
    /// `templates/x.yaml`. `SIZE` stands for a number that differs from run to run.
    pub(crate) template: &'static str,
    /// `values.yaml`.
    pub(crate) values: &'static str,
    /// `values.schema.json`.
    pub(crate) schema: &'static str,
}

const fn kind(name: &'static str, ends: &'static [Limit], template: &'static str) -> Kind {
    Kind { name, ends, template, values: "", schema: "" }
}

pub(crate) const KINDS: &[Kind] = &[
    kind("endless range", &[Steps], "{{ range 99SIZE000000000 }}{{ end }}"),
    kind(
        "ranges in ranges",
        &[Steps],
        "{{ range 99SIZE }}{{ range 99SIZE }}{{ range 99SIZE }}{{ end }}{{ end }}{{ end }}",
    ),
    kind(
        "output without end",
        &[Output],
        "{{ range 99SIZE000000000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}",
    ),
    kind(
        "tpl that calls itself",
        &[Depth, Blocks],
        "{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t \"Template\" .Template) }}",
    ),
    kind(
        "include that calls itself",
        &[],
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
    ),
    kind(
        "includes that call each other",
        &[Depth, Blocks],
        "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"c\" . }}{{ end }}{{ define \"c\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
    ),
    kind(
        "template that calls itself",
        &[Depth, Blocks],
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
    ),
    kind(
        "deep blocks that call themselves",
        &[Blocks, Depth],
        "{{ define \"a\" }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ if 1 }}{{ with 1 }}{{ range 1 }}{{ template \"a\" . }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ template \"a\" . }}",
    ),
    kind(
        "includes that double",
        &[Steps, Output, Text, Allocated],
        "{{ define \"a\" }}{{ if gt . 0 }}{{ include \"a\" (int (sub . 1)) }}{{ include \"a\" (int (sub . 1)) }}{{ else }}SIZE{{ end }}{{ end }}{{ include \"a\" 40 }}",
    ),
    kind(
        "tpl of ever new texts",
        &[Steps, Allocated],
        "{{ range 99SIZE000000 }}{{ $_ := tpl (printf \"{{ $x := %d }}{{ $x }}{{ $x }}{{ $x }}\" .) $ }}{{ end }}",
    ),
    kind("repeat", &[Text], "{{ repeat 99SIZE999999 \"xxxxxxxxxxxxxxxx\" }}"),
    kind(
        "repeats of repeats",
        &[Text, Allocated],
        "{{ $x := \"x\" }}{{ range 64 }}{{ $x = repeat 7 $x }}{{ end }}",
    ),
    kind(
        "repeats that are kept",
        &[Allocated],
        "{{ $d := dict }}{{ range 99SIZE }}{{ $_ := set $d (toString .) (repeat 1000000 \"x\") }}{{ end }}",
    ),
    kind(
        "printf with a width",
        &[Text],
        "{{ printf \"%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%99SIZEd\" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 }}",
    ),
    kind(
        "printf of printf",
        &[Text, Allocated],
        "{{ $x := \"xSIZE\" }}{{ range 64 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}",
    ),
    kind(
        "quote of quote",
        &[Text, Allocated],
        "{{ $x := \"\\\"SIZE\" }}{{ range 64 }}{{ $x = quote $x }}{{ end }}",
    ),
    kind("indent", &[Text], "{{ indent 99SIZE99 (repeat 9999 \"\\n\") }}"),
    kind(
        "replace",
        &[Text, Allocated],
        "{{ $x := \"xxxxxxxxSIZE\" }}{{ range 64 }}{{ $x = replace \"x\" \"xxxxxxxx\" $x }}{{ end }}",
    ),
    kind("join", &[Text], "{{ $l := until 99SIZE }}{{ join (repeat 99999 \"x\") $l }}"),
    kind(
        "cat",
        &[Text, Allocated],
        "{{ $x := repeat 100000 \"SIZE\" }}{{ range 64 }}{{ $x = cat $x $x $x }}{{ end }}",
    ),
    kind(
        "split",
        &[Allocated],
        "{{ $x := repeat 8000000 \",\" }}{{ splitList \",\" $x | len }}{{ split \",\" $x | len }}",
    ),
    kind("huge until", &[Allocated], "{{ until 99SIZE99999 | len }}"),
    kind("huge untilStep", &[Allocated], "{{ untilStep 0 99SIZE999999 1 | len }}"),
    kind("huge seq", &[Allocated], "{{ seq 1 99SIZE99999 | len }}"),
    kind(
        "lists that grow",
        &[Allocated, Steps],
        "{{ $l := list }}{{ range 99SIZE0000 }}{{ $l = append $l . }}{{ end }}",
    ),
    kind("concat", &[Allocated], "{{ $l := until 1000 }}{{ range 64 }}{{ $l = concat $l $l }}{{ end }}"),
    kind("chunk", &[Allocated], "{{ range 99SIZE }}{{ $x := chunk 1 (until 100000) }}{{ end }}"),
    kind("uniq", &[Steps], "{{ uniq (until 99000) | len }}{{ uniq (until 99SIZE) | len }}"),
    kind(
        "reverse and rest",
        &[Allocated],
        "{{ $l := until 100000 }}{{ range 99SIZE }}{{ $_ := reverse (rest $l) }}{{ end }}",
    ),
    kind("has", &[Steps], "{{ $l := until 100000 }}{{ range 99SIZE }}{{ $_ := has \"x\" $l }}{{ end }}"),
    kind(
        "dicts that grow",
        &[Allocated],
        "{{ $d := dict }}{{ range 99SIZE000000 }}{{ $_ := set $d (toString .) . }}{{ end }}",
    ),
    kind(
        "keys",
        &[Allocated],
        "{{ $d := dict }}{{ range 100000 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ range 99SIZE }}{{ $_ := keys $d }}{{ end }}",
    ),
    kind(
        "ranges over a large dict that are left",
        &[Steps, Allocated],
        "{{ $d := dict }}{{ range 100000 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ range 99SIZE000 }}{{ range $d }}{{ break }}{{ end }}{{ end }}",
    ),
    kind(
        "merges of deep dicts",
        &[Steps, Allocated, Nesting],
        "{{ $d := dict \"a\" 1 }}{{ range 60 }}{{ $d = dict \"x\" $d \"y\" $d \"z\" (dict) }}{{ end }}{{ $_ := merge (deepCopy $d) $d }}",
    ),
    kind(
        "merge of merges",
        &[Steps, Allocated, Nesting],
        "{{ $a := dict \"a\" 1 }}{{ $b := dict \"a\" 2 }}{{ range 40 }}{{ $a = dict \"x\" $a \"y\" $a }}{{ $b = dict \"x\" $b \"y\" $b }}{{ end }}{{ $_ := mergeOverwrite $a $b }}",
    ),
    kind(
        "a dict in itself",
        &[Nesting],
        "{{ $d := dict \"SIZE\" 1 }}{{ $_ := set $d \"self\" $d }}{{ toYaml $d }}",
    ),
    kind(
        "a dict in itself, printed",
        &[Nesting, Text],
        "{{ $d := dict \"SIZE\" 1 }}{{ $_ := set $d \"a\" $d }}{{ $_ := set $d \"b\" $d }}{{ $d }}",
    ),
    kind(
        "doubled lists, printed",
        &[Text, Allocated],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
    ),
    kind(
        "doubled lists, toYaml",
        &[Text, Allocated, Steps],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toYaml $x }}",
    ),
    kind(
        "doubled lists, toYamlPretty",
        &[Text, Allocated, Steps],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toYamlPretty $x }}",
    ),
    kind(
        "doubled lists, toJson",
        &[Text, Allocated, Steps],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
    ),
    kind(
        "doubled lists, toToml",
        &[Text, Allocated, Steps],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toToml (dict \"x\" $x) }}",
    ),
    kind(
        "doubled lists, copied",
        &[Allocated, Steps],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ $_ := deepCopy $x }}",
    ),
    kind(
        "doubled lists, compared",
        &[Steps],
        "{{ $x := list 1 2 }}{{ $y := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ $y = list $y $y }}{{ end }}{{ deepEqual $x $y }}",
    ),
    kind(
        "doubled lists, joined",
        &[Text, Allocated],
        "{{ $x := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ join \",\" $x }}",
    ),
    kind(
        "toYaml and fromYaml",
        &[Allocated, Text, Steps],
        "{{ $x := dict \"a\" (until 1000) }}{{ range 99SIZE }}{{ $x = fromYaml (toYaml (dict \"a\" $x \"b\" $x)) }}{{ end }}",
    ),
    kind(
        "fromYaml of brackets",
        &[Allocated],
        "{{ fromYaml (repeat 4000000 \"[\") | len }}{{ range 99SIZE }}{{ $_ := fromYamlArray (repeat 300000 \"- a\\n\") }}{{ end }}",
    ),
    kind(
        "fromYaml of aliases",
        &[Steps, Allocated],
        "{{ $t := \"a: &a [x,x,x,x,x,x,x,x,x]\\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\\nc: &c [*b,*b,*b,*b,*b,*b,*b]\\nd: &d [*c,*c,*c,*c,*c,*c,*c]\\ne: &e [*d,*d,*d,*d,*d,*d,*d]\\nf: [*e,*e,*e,*e,*e,*e,*e]\\n\" }}{{ range 99SIZE00 }}{{ $_ := fromYaml $t }}{{ end }}",
    ),
    kind(
        "fromJson",
        &[Allocated],
        "{{ range 99SIZE }}{{ $_ := fromJsonArray (printf \"[%s1]\" (repeat 300000 \"1,\")) }}{{ end }}",
    ),
    kind(
        "fromToml",
        &[Allocated],
        "{{ range 99SIZE }}{{ $_ := fromToml (repeat 30000 \"[[a.b]]\\n\") }}{{ end }}",
    ),
    kind(
        "checksums of checksums",
        &[Steps],
        "{{ $x := repeat 100000 \"SIZE\" }}{{ range 9999999 }}{{ $_ := sha512sum $x }}{{ end }}",
    ),
    kind(
        "base64 of base64",
        &[Text, Allocated],
        "{{ $x := \"SIZE\" }}{{ range 640 }}{{ $x = b64enc $x }}{{ end }}",
    ),
    kind(
        "a regular expression that is large",
        &[],
        "{{ mustRegexMatch \"(((((a{99}){99}){99}){99}){SIZE})\" \"a\" }}",
    ),
    kind(
        "a regular expression that is slow",
        &[Regex],
        "{{ regexMatch \"(a?){500}a{5SIZE}$\" (repeat 1000000 \"a\") }}",
    ),
    kind(
        "many regular expressions",
        &[Steps, Allocated],
        "{{ range $i := until 99999 }}{{ $_ := regexMatch (printf \"(a|b|%d){100}[\\\\p{L}]{20}\" $i) \"ab\" }}{{ end }}",
    ),
    kind(
        "regexReplaceAll",
        &[Text, Allocated, Regex],
        "{{ $x := \"aaaaaaaaSIZE\" }}{{ range 64 }}{{ $x = regexReplaceAll \"a\" $x \"aaaaaaaa\" }}{{ end }}",
    ),
    kind(
        "regexFindAll",
        &[Allocated, Regex],
        "{{ range 99SIZE }}{{ $_ := regexFindAll \"a\" (repeat 1000000 \"a\") -1 }}{{ end }}",
    ),
    kind(
        "regexSplit",
        &[Allocated, Regex],
        "{{ range 99SIZE }}{{ $_ := regexSplit \"a\" (repeat 1000000 \"a\") -1 }}{{ end }}",
    ),
    kind("genPrivateKey", &[Steps], "{{ range 99SIZE }}{{ $_ := genPrivateKey \"rsa\" }}{{ end }}"),
    kind("genCA", &[Steps], "{{ range 99SIZE }}{{ $_ := genCA \"x\" 365 }}{{ end }}"),
    kind(
        "genSelfSignedCert",
        &[Steps],
        "{{ range 99SIZE }}{{ $_ := genSelfSignedCert \"x\" nil nil 365 }}{{ end }}",
    ),
    kind("bcrypt", &[Steps], "{{ range 99SIZE }}{{ $_ := bcrypt \"x\" }}{{ end }}"),
    kind("htpasswd", &[Steps], "{{ range 99SIZE }}{{ $_ := htpasswd \"x\" \"y\" }}{{ end }}"),
    kind(
        "derivePassword",
        &[Steps],
        "{{ range 99SIZE }}{{ $_ := derivePassword 1 \"long\" \"x\" \"y\" \"z\" }}{{ end }}",
    ),
    kind(
        "encryptAES",
        &[Allocated, Text],
        "{{ $x := \"SIZE\" }}{{ range 640 }}{{ $x = encryptAES \"k\" $x }}{{ end }}",
    ),
    kind("randAlphaNum", &[Text], "{{ randAlphaNum 99SIZE99999 }}"),
    kind("randBytes", &[Allocated, Text], "{{ randBytes 99SIZE99999 }}"),
    kind(
        "shuffle",
        &[Steps, Allocated],
        "{{ $x := repeat 1000000 \"SIZE\" }}{{ range 99 }}{{ $x = shuffle $x }}{{ end }}",
    ),
    kind(
        "many variables",
        &[Steps],
        "{{ $a := 1 }}{{ define \"x\" }}{{ end }}{{ range 99SIZE000000 }}{{ $a = add $a 1 }}{{ $b := $a }}{{ $c := $b }}{{ end }}",
    ),
    kind("a manifest of many values", &[Text], "{{ range 2000000 }}- SIZE\n{{ end }}"),
    kind("a manifest of brackets", &[], "{{ repeat 99SIZE9 \"[\" }}"),
    Kind {
        name: "values of aliases",
        ends: &[],
        template: "{{ .Values | toYaml }}",
        values: "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g]\n",
        schema: "",
    },
    Kind {
        name: "a schema that refers to itself",
        ends: &[],
        template: "a: 1",
        values: "a: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}\n",
        schema: r##"{"$ref": "#/definitions/x", "definitions": {"x": {"anyOf": [{"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["b"]}, {"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["c"]}, {"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["d"]}, {"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["e"]}, {"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["f"]}, {"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["g"]}]}}}"##,
    },
    Kind {
        name: "a schema with a slow pattern",
        ends: &[],
        template: "a: 1",
        values: "a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n",
        schema: r##"{"properties": {"a": {"pattern": "^((a+)+)+$"}}, "patternProperties": {"(\\p{L}{1000}){1000}": {}}}"##,
    },
    Kind {
        name: "large values",
        ends: &[Text, Allocated, Steps],
        template: "{{ range 99SIZE }}{{ toYaml $.Values }}{{ toJson $.Values }}{{ end }}",
        values: "LARGE",
        schema: "",
    },
];
