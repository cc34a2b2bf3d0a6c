//! No template takes more than it is given, nor the process with it.
#![allow(clippy::unwrap_used, clippy::panic)] // clippy does not see that helpers of tests are tests

use convoy_gotemplate::{
    ExecError, Functions, Limit, Limits, Map, Session, Signature, Templates, Type, Value, parse,
};

fn set(
    call: &mut convoy_gotemplate::Call<'_, '_>,
    args: &[Value],
) -> Result<Value, convoy_gotemplate::FuncError> {
    let [Value::Map(map), Value::String(key), value] = args else { return Ok(Value::Nil) };
    call.mutated(map);
    map.insert(key.clone(), value.clone());
    Ok(Value::Map(map.clone()))
}

fn include(
    call: &mut convoy_gotemplate::Call<'_, '_>,
    args: &[Value],
) -> Result<Value, convoy_gotemplate::FuncError> {
    let [Value::String(name), data] = args else { return Ok(Value::Nil) };
    call.execute(name, data).map(|output| Value::String(output.into()))
}

fn functions() -> Functions {
    let mut functions = Functions::new();
    functions.add("set", Signature::new(&[Type::Map, Type::String, Type::Any], Type::Map), set);
    functions.add("include", Signature::new(&[Type::String, Type::Any], Type::String), include);
    functions
}

fn run(text: &str, limits: Limits) -> Result<Vec<u8>, ExecError> {
    let mut templates = Templates::new();
    templates.add(&parse("main", text.as_bytes(), &functions()).unwrap());
    let data = Value::map([("m", Value::Map(Map::default()))]);
    Session::new().with_limits(limits).execute(&templates, b"main", &data)
}

fn reached(text: &str, limits: Limits) -> Option<Limit> {
    run(text, limits).unwrap_err().reached_limit()
}

#[test]
fn each_limit_ends_a_run_with_its_own_error() {
    let limits = Limits {
        max_steps: 10_000,
        max_output: 10_000,
        max_allocated: 100_000,
        max_text: 50_000,
        max_depth: 100,
        max_blocks: 300,
    };
    assert_eq!(reached("{{ range 100000 }}{{ end }}", limits), Some(Limit::Steps));
    assert_eq!(reached("{{ range 5000 }}xyz{{ end }}", limits), Some(Limit::Output));
    assert_eq!(reached("{{ printf \"%19999d\" 1 }}", limits), Some(Limit::Output));
    assert_eq!(reached("{{ len (printf \"%999999d\" 1) }}", limits), Some(Limit::Text));
    let doubling = "{{ $x := \"ab\" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}";
    assert_eq!(reached(doubling, limits), Some(Limit::Allocated));
    let often = "{{ range 64 }}{{ $x := printf \"%9999d\" 1 }}{{ end }}";
    assert_eq!(reached(often, limits), Some(Limit::Allocated));
    assert_eq!(reached("{{ template \"main\" }}", limits), Some(Limit::Depth));
    assert_eq!(reached("{{ include \"main\" . }}", limits), Some(Limit::Depth));
    let blocks = format!("{}{{{{ template \"main\" }}}}{}", "{{ if 1 }}".repeat(20), "{{ end }}".repeat(20));
    assert_eq!(reached(&blocks, limits), Some(Limit::Blocks));
    let endless = || true;
    let mut templates = Templates::new();
    templates.add(&parse("main", "{{ range 100000 }}{{ end }}", &functions()).unwrap());
    let late = Session::new().with_deadline(&endless).execute(&templates, b"main", &Value::Nil);
    assert_eq!(late.unwrap_err().reached_limit(), Some(Limit::Deadline));
}

#[test]
fn deep_recursion_does_not_end_the_process() {
    let deep = Limits { max_depth: 20_000, max_blocks: 100_000, ..Limits::default() };
    assert_eq!(reached("{{ template \"main\" }}", deep), Some(Limit::Depth));
    assert_eq!(reached("{{ if true }}{{ include \"main\" . }}{{ end }}", deep), Some(Limit::Depth));
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(900), ")".repeat(900));
    assert_eq!(run(&parens, deep).unwrap(), b"1");
    let blocks = format!("{}x{}", "{{ if 1 }}".repeat(400), "{{ end }}".repeat(400));
    assert_eq!(run(&blocks, deep).unwrap(), b"x");
    let too_deep = format!("{{{{ {} }}}}", "(".repeat(100_000));
    let error = parse("main", too_deep.as_bytes(), &functions()).unwrap_err();
    assert_eq!(error.to_string(), "template: main:1: max expression depth exceeded");
}

#[test]
fn every_limit_says_its_value_and_what_to_do() {
    let limits = Limits::default();
    for (limit, value) in [
        (Limit::Steps, "20000000"),
        (Limit::Output, "67108864"),
        (Limit::Allocated, "100663296"),
        (Limit::Text, "10485760"),
        (Limit::Depth, "2000"),
        (Limit::Blocks, "10000"),
        (Limit::Nesting, "1000"),
        (Limit::Regex, "shorter"),
        (Limit::Deadline, "again"),
    ] {
        let advice = limits.advice(limit);
        assert!(advice.contains(value), "{limit}: {advice}");
    }
}

#[test]
fn work_that_no_step_shows_is_counted() {
    let text = "{{ $x := printf \"%1000000d\" 1 }}{{ range 1000000 }}{{ if eq $x \"y\" }}{{ end }}{{ end }}";
    let turns = Limits { max_steps: 3_000_000, ..Limits::default() };
    assert_eq!(reached(text, turns), Some(Limit::Steps));
}

#[test]
fn a_value_that_holds_itself_can_be_made_but_not_printed() {
    let cycle = "{{ $m := set .m \"self\" .m }}{{ len $m }}";
    assert_eq!(run(cycle, Limits::default()).unwrap(), b"1");
    assert_eq!(reached("{{ set .m \"self\" .m }}", Limits::default()), Some(Limit::Nesting));
}

#[test]
fn a_deep_value_is_freed_without_recursion() {
    let mut value = Value::Nil;
    for _ in 0..1_000_000 {
        value = Value::list(vec![value]);
    }
    drop(value);
}

#[test]
fn maps_are_shared_and_changed_in_place() {
    let text = "{{ $alias := .m }}{{ $_ := set .m \"k\" 1 }}{{ $alias.k }} {{ .m.k }}";
    assert_eq!(run(text, Limits::default()).unwrap(), b"1 1");
}
