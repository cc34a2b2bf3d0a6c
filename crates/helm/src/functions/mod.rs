//! The functions that templates of a chart may call: Sprig's (3.3) and Helm's own (4.2).
//!
//! They keep no state of their own: what a render needs is in its [`Environment`], which the caller lends to
//! the session as its host. None reaches a network, a file, a clock or a source of randomness.

mod arguments;
mod certificates;
mod crypto;
mod date_layout;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod duration;
mod encoding;
mod equal;
mod json;
mod json_read;
mod lists;
mod numbers;
mod paths;
mod random;
mod regex_syntax;
mod regexes;
mod room;
mod scrypt;
mod semver;
mod sorting;
mod strings;
mod templates;
mod text;
mod toml;
mod urls;
mod words;
mod yaml;
mod yaml_pretty;

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::version::HelmVersion;
use convoy_gotemplate::Type::{Any, Bool, Float64, Int, Int64, List, Map, String, StringMap, Strings};
use convoy_gotemplate::{Call, FuncError, Functions, Parsed, Signature, Str};

pub(crate) use dates::check_time;
pub(crate) use json_read::{json_error, read_schema_json};
pub use paths::clean;
pub use random::Entropy;
pub(crate) use regexes::{SizedRegex, compile_pattern};
pub use templates::without_no_value;
pub(crate) use urls::check_url;
pub use yaml::Built;
pub(crate) use yaml::yaml_text;

/// What one render lends to the functions, as the host of its [`convoy_gotemplate::Session`].
pub struct Environment {
    /// The source of randomness for `randAlphaNum`, `uuidv4`, `genCA` and their kin.
    entropy: Box<dyn Entropy>,
    /// The time that `now` gives.
    now: jiff::Timestamp,
    /// Whether the render's time has run out, or nobody wants it any more.
    deadline: Option<Rc<dyn Fn() -> bool>>,
    includes: HashMap<Str, u32>,
    parsed: HashMap<Str, Parsed>,
    regexes: regexes::Known,
    used: convoy_gotemplate::Used,
    /// Whose functions `tpl` knows.
    helm: HelmVersion,
    /// Whether `required` and `fail` give nothing instead of an error.
    lints: bool,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Environment {
    /// For a render at `now`.
    pub fn new(now: jiff::Timestamp, entropy: impl Entropy + 'static) -> Self {
        Self {
            entropy: Box::new(entropy),
            now,
            deadline: None,
            includes: HashMap::new(),
            parsed: HashMap::new(),
            regexes: regexes::Known::default(),
            used: convoy_gotemplate::Used::default(),
            helm: HelmVersion::default(),
            lints: false,
        }
    }
}

impl Environment {
    /// With a question that is asked every thousand steps or so: has the time run out, or was the render
    /// cancelled? When it has, the render ends with [`convoy_gotemplate::Limit::Deadline`].
    #[must_use]
    pub fn with_deadline(mut self, passed: impl Fn() -> bool + 'static) -> Self {
        self.deadline = Some(Rc::new(passed));
        self
    }

    /// What the render used of its limits.
    pub fn used(&self) -> convoy_gotemplate::Used {
        self.used
    }

    pub(crate) fn set_used(&mut self, used: convoy_gotemplate::Used) {
        self.used = used;
    }

    pub(crate) fn set_helm(&mut self, helm: HelmVersion) {
        self.helm = helm;
    }

    pub(crate) fn set_lints(&mut self) {
        self.lints = true;
    }

    pub(crate) fn deadline(&self) -> Option<Rc<dyn Fn() -> bool>> {
        self.deadline.clone()
    }
}

fn context<'a>(call: &'a mut Call<'_, '_>) -> Result<&'a mut Environment, FuncError> {
    call.host().ok_or_else(|| FuncError::new("this function needs the context of a render"))
}

/// The functions that a version of Helm has, to parse templates with.
pub(crate) fn functions_of(helm: HelmVersion) -> &'static Functions {
    static OF_HELM_3: LazyLock<Functions> = LazyLock::new(|| {
        let mut functions = functions().clone();
        ["mustToYaml", "mustToToml"].into_iter().for_each(|name| functions.remove(name));
        functions
    });
    match helm {
        HelmVersion::V3 => &OF_HELM_3,
        HelmVersion::V4 => functions(),
    }
}

/// The table of all functions, to parse templates with.
pub fn functions() -> &'static Functions {
    static TABLE: LazyLock<Functions> = LazyLock::new(|| {
        let mut functions = Functions::new();
        add_text(&mut functions);
        add_numbers(&mut functions);
        add_collections(&mut functions);
        add_formats(&mut functions);
        add_dates(&mut functions);
        add_crypto(&mut functions);
        functions
    });
    &TABLE
}

const fn fixed(params: &'static [convoy_gotemplate::Type], result: convoy_gotemplate::Type) -> Signature {
    Signature::new(params, result)
}

fn add_text(f: &mut Functions) {
    let to_text = fixed(&[String], String);
    let two = fixed(&[String, String], String);
    let test = fixed(&[String, String], Bool);
    let sized = fixed(&[Int, String], String);
    f.add("hello", fixed(&[], String), templates::hello);
    f.add("trim", to_text, strings::trim);
    f.add("upper", to_text, strings::upper);
    f.add("lower", to_text, strings::lower);
    f.add("title", to_text, strings::title);
    f.add("untitle", to_text, strings::untitle);
    f.add("swapcase", to_text, strings::swapcase);
    f.add("initials", to_text, strings::initials);
    f.add("nospace", to_text, strings::nospace);
    f.add("snakecase", to_text, words::snakecase);
    f.add("camelcase", to_text, words::camelcase);
    f.add("kebabcase", to_text, words::kebabcase);
    f.add("shuffle", to_text, random::shuffle);
    f.add("trimall", two, strings::trim_all);
    f.add("trimAll", two, strings::trim_all);
    f.add("trimSuffix", two, strings::trim_suffix);
    f.add("trimPrefix", two, strings::trim_prefix);
    f.add("contains", test, strings::contains);
    f.add("hasPrefix", test, strings::has_prefix);
    f.add("hasSuffix", test, strings::has_suffix);
    f.add("trunc", sized, strings::trunc);
    f.add("abbrev", sized, strings::abbrev);
    f.add("abbrevboth", fixed(&[Int, Int, String], String), strings::abbrevboth);
    f.add("substr", fixed(&[Int, Int, String], String), strings::substr);
    f.add("repeat", sized, strings::repeat);
    f.add("indent", sized, strings::indent);
    f.add("nindent", sized, strings::nindent);
    f.add("wrap", sized, strings::wrap);
    f.add("wrapWith", fixed(&[Int, String, String], String), strings::wrap_with);
    f.add("replace", fixed(&[String, String, String], String), strings::replace);
    f.add("plural", fixed(&[String, String, Int], String), strings::plural);
    f.add("split", fixed(&[String, String], StringMap), strings::split);
    f.add("splitn", fixed(&[String, Int, String], StringMap), strings::splitn);
    f.add("splitList", fixed(&[String, String], Strings), strings::split_list);
    f.add("quote", Signature::variadic(&[], Any, String), text::quote);
    f.add("squote", Signature::variadic(&[], Any, String), text::squote);
    f.add("cat", Signature::variadic(&[], Any, String), text::cat);
    f.add("toString", fixed(&[Any], String), text::to_string);
    f.add("toStrings", fixed(&[Any], Strings), text::to_strings);
    f.add("join", fixed(&[String, Any], String), text::join);
    f.add("sortAlpha", fixed(&[Any], Strings), lists::sort_alpha);
    f.add("randAlphaNum", fixed(&[Int], String), random::alphanumeric);
    f.add("randAlpha", fixed(&[Int], String), random::alpha);
    f.add("randAscii", fixed(&[Int], String), random::ascii);
    f.add("randNumeric", fixed(&[Int], String), random::numeric);
    f.add("randBytes", fixed(&[Int], String), random::rand_bytes);
    f.add("uuidv4", fixed(&[], String), random::uuidv4);

    for (name, body) in
        [("regexFind", regexes::find as convoy_gotemplate::Body), ("mustRegexFind", regexes::must_find)]
    {
        f.add(name, two, body);
    }
    f.add("regexMatch", test, regexes::matches);
    f.add("mustRegexMatch", test, regexes::must_match);
    let all = fixed(&[String, String, Int], Strings);
    f.add("regexFindAll", all, regexes::find_all);
    f.add("mustRegexFindAll", all, regexes::must_find_all);
    f.add("regexSplit", all, regexes::split);
    f.add("mustRegexSplit", all, regexes::must_split);
    let three = fixed(&[String, String, String], String);
    f.add("regexReplaceAll", three, regexes::replace_all);
    f.add("mustRegexReplaceAll", three, regexes::must_replace_all);
    f.add("regexReplaceAllLiteral", three, regexes::replace_all_literal);
    f.add("mustRegexReplaceAllLiteral", three, regexes::must_replace_all_literal);
    f.add("regexQuoteMeta", to_text, regexes::quote_meta);

    f.add("base", to_text, paths::base);
    f.add("dir", to_text, paths::dir);
    f.add("clean", to_text, paths::clean_function);
    f.add("ext", to_text, paths::ext);
    f.add("isAbs", fixed(&[String], Bool), paths::is_abs);
    f.add("osBase", to_text, paths::base);
    f.add("osDir", to_text, paths::dir);
    f.add("osClean", to_text, paths::clean_function);
    f.add("osExt", to_text, paths::ext);
    f.add("osIsAbs", fixed(&[String], Bool), paths::is_abs);
}

fn add_numbers(f: &mut Functions) {
    let some = Signature::variadic(&[Any], Any, Int64);
    let floats = Signature::variadic(&[Any], Any, Float64);
    f.add("atoi", fixed(&[String], Int), numbers::atoi);
    f.add("int64", fixed(&[Any], Int64), numbers::int64);
    f.add("int", fixed(&[Any], Int), numbers::int_function);
    f.add("float64", fixed(&[Any], Float64), numbers::float64);
    f.add("toDecimal", fixed(&[Any], Int64), numbers::to_decimal);
    f.add("add1", fixed(&[Any], Int64), numbers::add1);
    f.add("add", Signature::variadic(&[], Any, Int64), numbers::add);
    f.add("sub", fixed(&[Any, Any], Int64), numbers::sub);
    f.add("div", fixed(&[Any, Any], Int64), numbers::div);
    f.add("mod", fixed(&[Any, Any], Int64), numbers::modulo);
    f.add("mul", some, numbers::mul);
    f.add("max", some, numbers::max);
    f.add("biggest", some, numbers::max);
    f.add("min", some, numbers::min);
    f.add("maxf", floats, numbers::maxf);
    f.add("minf", floats, numbers::minf);
    f.add("add1f", fixed(&[Any], Float64), numbers::add1f);
    f.add("addf", Signature::variadic(&[], Any, Float64), numbers::addf);
    f.add("subf", floats, numbers::subf);
    f.add("mulf", floats, numbers::mulf);
    f.add("divf", floats, numbers::divf);
    f.add("ceil", fixed(&[Any], Float64), numbers::ceil);
    f.add("floor", fixed(&[Any], Float64), numbers::floor);
    f.add("round", Signature::variadic(&[Any, Int], Float64, Float64), numbers::round);
    f.add("randInt", fixed(&[Int, Int], Int), random::rand_int);
    f.add("seq", Signature::variadic(&[], Int, String), lists::seq);
    f.add("until", fixed(&[Int], List), lists::until);
    f.add("untilStep", fixed(&[Int, Int, Int], List), lists::until_step);
}

fn add_collections(f: &mut Functions) {
    f.add("default", Signature::variadic(&[Any], Any, Any), defaults::default);
    f.add("empty", fixed(&[Any], Bool), defaults::empty);
    f.add("coalesce", Signature::variadic(&[], Any, Any), defaults::coalesce);
    f.add("all", Signature::variadic(&[], Any, Bool), defaults::all);
    f.add("any", Signature::variadic(&[], Any, Bool), defaults::some);
    f.add("ternary", fixed(&[Any, Any, Bool], Any), defaults::ternary);
    f.add("typeOf", fixed(&[Any], String), defaults::type_of);
    f.add("typeIs", fixed(&[String, Any], Bool), defaults::type_is);
    f.add("typeIsLike", fixed(&[String, Any], Bool), defaults::type_is_like);
    f.add("kindOf", fixed(&[Any], String), defaults::kind_of);
    f.add("kindIs", fixed(&[String, Any], Bool), defaults::kind_is);
    f.add("deepEqual", fixed(&[Any, Any], Bool), equal::deep_equal_function);
    f.add("deepCopy", fixed(&[Any], Any), dicts::deep_copy);
    f.add("mustDeepCopy", fixed(&[Any], Any), dicts::deep_copy);

    f.add("tuple", Signature::variadic(&[], Any, List), lists::make);
    f.add("list", Signature::variadic(&[], Any, List), lists::make);
    f.add("dict", Signature::variadic(&[], Any, Map), dicts::dict);
    f.add("get", fixed(&[Map, String], Any), dicts::get);
    f.add("set", fixed(&[Map, String, Any], Map), dicts::set);
    f.add("unset", fixed(&[Map, String], Map), dicts::unset);
    f.add("hasKey", fixed(&[Map, String], Bool), dicts::has_key);
    f.add("pluck", Signature::variadic(&[String], Map, List), dicts::pluck);
    f.add("keys", Signature::variadic(&[], Map, Strings), dicts::keys);
    f.add("values", fixed(&[Map], List), dicts::values);
    f.add("pick", Signature::variadic(&[Map], String, Map), dicts::pick);
    f.add("omit", Signature::variadic(&[Map], String, Map), dicts::omit);
    f.add("dig", Signature::variadic(&[], Any, Any), dicts::dig);
    let merge = Signature::variadic(&[Map], Map, Any);
    f.add("merge", merge, dicts::merge);
    f.add("mustMerge", merge, dicts::merge);
    f.add("mergeOverwrite", merge, dicts::merge_overwrite);
    f.add("mustMergeOverwrite", merge, dicts::merge_overwrite);

    let with = fixed(&[Any, Any], List);
    for name in ["append", "push", "mustAppend", "mustPush"] {
        f.add(name, with, lists::append);
    }
    for name in ["prepend", "mustPrepend"] {
        f.add(name, with, lists::prepend);
    }
    for (name, must, body) in
        [("first", "mustFirst", lists::first as convoy_gotemplate::Body), ("last", "mustLast", lists::last)]
    {
        f.add(name, fixed(&[Any], Any), body);
        f.add(must, fixed(&[Any], Any), body);
    }
    for (name, must, body) in [
        ("rest", "mustRest", lists::rest as convoy_gotemplate::Body),
        ("initial", "mustInitial", lists::initial),
        ("reverse", "mustReverse", lists::reverse),
        ("compact", "mustCompact", lists::compact),
        ("uniq", "mustUniq", lists::uniq),
    ] {
        f.add(name, fixed(&[Any], List), body);
        f.add(must, fixed(&[Any], List), body);
    }
    for name in ["without", "mustWithout"] {
        f.add(name, Signature::variadic(&[Any], Any, List), lists::without);
    }
    for name in ["has", "mustHas"] {
        f.add(name, fixed(&[Any, Any], Bool), lists::has);
    }
    for name in ["slice", "mustSlice"] {
        f.add(name, Signature::variadic(&[Any], Any, Any), lists::slice);
    }
    for name in ["chunk", "mustChunk"] {
        f.add(name, fixed(&[Int, Any], List), lists::chunk);
    }
    f.add("concat", Signature::variadic(&[], Any, Any), lists::concat);
}

fn add_formats(f: &mut Functions) {
    let write = fixed(&[Any], String);
    let to_text = fixed(&[String], String);
    f.add("toYaml", write, yaml::to_yaml);
    f.add("mustToYaml", write, yaml::must_to_yaml);
    f.add("fromYaml", fixed(&[String], Map), yaml::from_yaml);
    f.add("fromYamlArray", fixed(&[String], List), yaml::from_yaml_array);
    f.add("toToml", write, toml::to_toml);
    f.add("mustToToml", write, toml::must_to_toml);
    f.add("fromToml", fixed(&[String], Map), toml::from_toml);
    f.add("toYamlPretty", write, yaml_pretty::to_yaml_pretty);
    f.add("toJson", write, json::to_json);
    f.add("mustToJson", write, json::must_to_json);
    f.add("toPrettyJson", write, json::to_pretty_json);
    f.add("mustToPrettyJson", write, json::must_to_pretty_json);
    f.add("toRawJson", write, json::to_raw_json);
    f.add("mustToRawJson", write, json::to_raw_json);
    f.add("fromJson", fixed(&[String], Map), json::from_json);
    f.add("fromJsonArray", fixed(&[String], List), json::from_json_array);
    f.add("mustFromJson", fixed(&[String], Any), json::must_from_json);

    f.add("b64enc", to_text, encoding::b64enc);
    f.add("b64dec", to_text, encoding::b64dec);
    f.add("b32enc", to_text, encoding::b32enc);
    f.add("b32dec", to_text, encoding::b32dec);
    f.add("sha1sum", to_text, encoding::sha1sum);
    f.add("sha256sum", to_text, encoding::sha256sum);
    f.add("sha512sum", to_text, encoding::sha512sum);
    f.add("adler32sum", to_text, encoding::adler32sum);

    f.add("semver", fixed(&[String], convoy_gotemplate::Type::Object("*semver.Version")), semver::make);
    f.add("semverCompare", fixed(&[String, String], Bool), semver::compare);

    f.add("urlParse", fixed(&[String], Map), urls::url_parse);
    f.add("urlJoin", fixed(&[Map], String), urls::url_join);

    f.add("include", fixed(&[String, Any], String), templates::include);
    f.add("tpl", fixed(&[String, Any], String), templates::tpl);
    f.add("required", fixed(&[String, Any], Any), templates::required);
    f.add("fail", to_text, templates::fail);
    f.add("lookup", fixed(&[String, String, String, String], Map), templates::lookup);
    f.add("getHostByName", to_text, templates::get_host_by_name);
}

fn add_dates(f: &mut Functions) {
    const TIME: convoy_gotemplate::Type = convoy_gotemplate::Type::Object(dates::TIME);
    f.add("now", fixed(&[], TIME), dates::now);
    f.add("date", fixed(&[String, Any], String), dates::date);
    f.add("htmlDate", fixed(&[Any], String), dates::html_date);
    f.add("htmlDateInZone", fixed(&[Any, String], String), dates::html_date_in_zone);
    f.add("ago", fixed(&[Any], String), dates::ago);
    f.add("duration", fixed(&[Any], String), dates::duration_function);
    f.add("durationRound", fixed(&[Any], String), dates::duration_round);
    f.add("toDate", fixed(&[String, String], TIME), dates::to_date);
    f.add("mustToDate", fixed(&[String, String], TIME), dates::must_to_date);
    f.add("unixEpoch", fixed(&[TIME], String), dates::unix_epoch);
    for name in ["date_in_zone", "dateInZone"] {
        f.add(name, fixed(&[String, Any, String], String), dates::date_in_zone);
    }
    for name in ["date_modify", "dateModify"] {
        f.add(name, fixed(&[String, TIME], TIME), dates::date_modify);
    }
    for name in ["must_date_modify", "mustDateModify"] {
        f.add(name, fixed(&[String, TIME], TIME), dates::must_date_modify);
    }
}

fn add_crypto(f: &mut Functions) {
    use convoy_gotemplate::Type::{Object, Uint32};
    const PAIR: convoy_gotemplate::Type = Object(certificates::CERTIFICATE);
    f.add("bcrypt", fixed(&[String], String), crypto::bcrypt_function);
    f.add("htpasswd", fixed(&[String, String], String), crypto::htpasswd);
    f.add(
        "derivePassword",
        fixed(&[Uint32, String, String, String, String], String),
        crypto::derive_password,
    );
    f.add("encryptAES", fixed(&[String, String], String), crypto::encrypt_aes);
    f.add("decryptAES", fixed(&[String, String], String), crypto::decrypt_aes);
    f.add("genPrivateKey", fixed(&[String], String), certificates::gen_private_key);
    f.add("buildCustomCert", fixed(&[String, String], PAIR), certificates::build_custom);
    f.add("genCA", fixed(&[String, Int], PAIR), certificates::gen_ca);
    f.add("genCAWithKey", fixed(&[String, Int, String], PAIR), certificates::gen_ca_with_key);
    f.add("genSelfSignedCert", fixed(&[String, List, List, Int], PAIR), certificates::gen_self_signed);
    let with_key = fixed(&[String, List, List, Int, String], PAIR);
    f.add("genSelfSignedCertWithKey", with_key, certificates::gen_self_signed_with_key);
    f.add("genSignedCert", fixed(&[String, List, List, Int, PAIR], PAIR), certificates::gen_signed);
    let with_key = fixed(&[String, List, List, Int, PAIR, String], PAIR);
    f.add("genSignedCertWithKey", with_key, certificates::gen_signed_with_key);
}
