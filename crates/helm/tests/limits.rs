//! Charts that want to hurt end with the error of a limit. The limits are small here, so that tests are quick;
//! `cargo xtask hostile-charts` does the same with those that renders have.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use std::cell::Cell;
use std::rc::Rc;

use convoy_helm::{
    Capabilities, Chart, Entropy, Environment, Limit, Limits, ReleaseOptions, RenderError, Rendered, Values,
    render,
};

struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

fn chart(files: &[(&str, &str)]) -> Chart {
    let chart_yaml = ("Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n");
    Chart::load(files.iter().chain([&chart_yaml]).map(|(name, text)| ((*name).to_owned(), *text))).unwrap()
}

fn small() -> ReleaseOptions {
    let limits = Limits {
        max_steps: 1_000_000,
        max_output: 1 << 20,
        max_allocated: 4 << 20,
        max_text: 1 << 18,
        ..Limits::default()
    };
    ReleaseOptions { limits, ..ReleaseOptions::default() }
}

fn run(template: &str, environment: &mut Environment) -> Result<Rendered, RenderError> {
    let chart = chart(&[("templates/x.yaml", template)]);
    render(&chart, &Values::new(), &small(), &Capabilities::default(), environment)
}

fn environment() -> Environment {
    Environment::new(jiff::Timestamp::UNIX_EPOCH, Counter(1))
}

#[test]
fn functions_that_make_much_out_of_little_are_ended_by_their_limits() {
    use Limit::{Allocated, Nesting, Output, Regex, Steps, Text};
    let doubled = "{{ $x := list 1 2 }}{{ $y := list 1 2 }}{{ range 40 }}{{ $x = list $x $x }}{{ $y = list $y $y }}{{ end }}";
    for (template, limit) in [
        ("{{ range 1000000000 }}{{ end }}", Steps),
        ("{{ range 1000000 }}{{ repeat 99 \"x\" }}{{ end }}", Output),
        ("{{ repeat 999999999 \"x\" }}", Text),
        ("{{ until 999999999 | len }}", Allocated),
        ("{{ seq 1 999999999 | len }}", Allocated),
        ("{{ splitList \",\" (repeat 200000 \",\") | len }}", Allocated),
        ("{{ indent 99999 (repeat 999 \"\\n\") }}", Text),
        ("{{ $x := \"x\" }}{{ range 64 }}{{ $x = replace \"x\" \"xxxx\" $x }}{{ end }}", Text),
        ("{{ join (repeat 9999 \"x\") (until 9999) }}", Text),
        ("DOUBLED{{ $x }}", Text),
        ("DOUBLED{{ toYaml $x }}", Text),
        ("DOUBLED{{ toYamlPretty $x }}", Text),
        ("DOUBLED{{ toJson $x }}", Text),
        ("DOUBLED{{ toToml (dict \"x\" $x) }}", Text),
        ("DOUBLED{{ deepCopy $x | len }}", Allocated),
        ("DOUBLED{{ deepEqual $x $y }}", Steps),
        ("DOUBLED{{ has $x (list $y) }}", Steps),
        ("{{ $d := dict }}{{ $_ := set $d \"a\" $d }}{{ toJson $d }}", Nesting),
        ("{{ fromYaml (repeat 200000 \"[\") | len }}", Allocated),
        ("{{ fromJsonArray (printf \"[%s1]\" (repeat 90000 \"1,\")) | len }}", Allocated),
        ("{{ fromToml (repeat 9000 \"[[a]]\\n\") | len }}", Text),
        ("{{ regexMatch \"(a?){400}a{400}$\" (repeat 200000 \"a\") }}", Regex),
        ("{{ regexFindAll \"a\" (repeat 200000 \"a\") -1 | len }}", Allocated),
        ("{{ range 99 }}{{ $_ := bcrypt \"x\" }}{{ end }}", Steps),
        ("{{ derivePassword 1 \"long\" \"x\" \"y\" \"z\" }}", Steps),
        ("{{ $x := repeat 30000 \"x\" }}{{ range 99 }}{{ $_ := shuffle $x }}{{ end }}", Allocated),
        (
            "{{ $d := dict }}{{ $l := list }}{{ range 900 }}{{ $l = append $l . }}{{ $_ := set $d (toString .) $l }}{{ end }}",
            Allocated,
        ),
        ("{{ range 99 }}{{ $_ := genCA \"x\" 1 }}{{ end }}", Steps),
        ("{{ $x := repeat 200000 \"x\" }}{{ range 99999 }}{{ $_ := sha256sum $x }}{{ end }}", Steps),
    ] {
        let error = run(&template.replace("DOUBLED", doubled), &mut environment()).unwrap_err();
        assert_eq!(error.reached_limit(), Some(limit), "{template}: {error}");
        let advice = small().limits.advice(limit);
        assert!(error.to_string().ends_with(&advice), "{template}: {error}");
    }
}

#[test]
fn a_render_that_is_cancelled_ends_wherever_it_is() {
    for template in [
        "{{ range 1000000000 }}{{ end }}",
        "{{ genPrivateKey \"rsa\" }}",
        "{{ bcrypt \"x\" }}",
        "{{ derivePassword 1 \"long\" \"x\" \"y\" \"z\" }}",
        "{{ shuffle (repeat 20000 \"x\") }}",
        "{{ randAlphaNum 20000 }}",
        "{{ until 20000 }}",
        "{{ toYaml (until 20000) }}",
        "{{ toJson (until 20000) }}",
        "{{ fromYamlArray (repeat 20000 \"- a\\n\") | len }}",
        "{{ range 5000 }}- a\n{{ end }}",
    ] {
        let asked = Rc::new(Cell::new(0));
        let seen = Rc::clone(&asked);
        let mut environment = environment().with_deadline(move || {
            seen.set(seen.get() + 1);
            true
        });
        let error = run(template, &mut environment).unwrap_err();
        assert_eq!(error.reached_limit(), Some(Limit::Deadline), "{template}: {error}");
        assert!(asked.get() < 10, "{template}: it was asked {} times", asked.get());
    }
}

#[test]
fn a_schema_whose_patterns_are_large_or_slow_is_refused() {
    let values = format!("a: {}\n", "a".repeat(100_000));
    for (schema, want) in [
        (r#"{"properties": {"a": {"pattern": "(a?){400}a{400}!$"}}}"#, "too many steps"),
        (r#"{"properties": {"a": {"pattern": "(((a{99}){99}){99}){99}"}}}"#, "too large"),
    ] {
        let chart = chart(&[("values.yaml", &values), ("values.schema.json", schema)]);
        let error = render(&chart, &Values::new(), &small(), &Capabilities::default(), &mut environment());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

/// Renders with a question that is answered with yes, and tells how often it was asked.
fn cancelled(files: &[(&str, &str)]) -> (RenderError, u32) {
    let asked = Rc::new(Cell::new(0));
    let seen = Rc::clone(&asked);
    let mut environment = environment().with_deadline(move || {
        seen.set(seen.get() + 1);
        true
    });
    let release = ReleaseOptions::default();
    let rendered =
        render(&chart(files), &Values::new(), &release, &Capabilities::default(), &mut environment);
    (rendered.unwrap_err(), asked.get())
}

#[test]
fn a_render_that_is_cancelled_ends_while_its_values_are_put_together_or_held_to_a_schema() {
    let values: String = (0..5_000).map(|at| format!("k{at}: 1\n")).collect();
    let (error, asked) = cancelled(&[("values.yaml", &values)]);
    assert!(error.to_string().starts_with("putting the values together"), "{error}");
    assert_eq!((error.reached_limit(), asked), (Some(Limit::Deadline), 1));

    let definition = |n: usize| {
        let next = n + 1;
        format!(r##""d{n}": {{"anyOf": [{{"$ref": "#/$defs/d{next}"}}, {{"$ref": "#/$defs/d{next}"}}]}}"##)
    };
    let definitions: Vec<String> = (0..60).map(definition).collect();
    let schema = format!(
        r##"{{"$defs": {{{}, "d60": {{"type": "string"}}}}, "$ref": "#/$defs/d0"}}"##,
        definitions.join(", ")
    );
    let (error, asked) = cancelled(&[("values.schema.json", &schema)]);
    assert!(error.to_string().starts_with("holding the values to the schema"), "{error}");
    assert!(error.reached_limit() == Some(Limit::Deadline) && asked < 10, "it was asked {asked} times");
}

#[test]
fn a_list_may_grow_to_thousands_of_elements_one_by_one() {
    let template =
        "{{ $l := list }}{{ range $i := until 5000 }}{{ $l = append $l $i }}{{ end }}n: {{ len $l }}";
    let chart = chart(&[("templates/x.yaml", template)]);
    let release = ReleaseOptions::default();
    let mut environment = environment();
    let rendered =
        render(&chart, &Values::new(), &release, &Capabilities::default(), &mut environment).unwrap();
    assert_eq!(&*rendered.manifests[0].content, b"n: 5000");
    let used = environment.used();
    assert!(used.steps * 4 < release.limits.max_steps, "{used:?}");
}

#[test]
fn what_was_used_is_told() {
    let mut environment = environment();
    run("a: {{ repeat 1000 \"x\" }}", &mut environment).unwrap();
    let used = environment.used();
    assert_eq!((used.output, used.allocated), (1003, 1000));
    run("{{ $d := dict }}{{ range 1000 }}{{ $_ := set $d (toString .) . }}{{ end }}", &mut environment)
        .unwrap();
    assert!(
        environment.used().steps < 10_000,
        "a dict is not gone through for each entry: {:?}",
        environment.used()
    );
    assert!((10..60).contains(&used.steps), "{used:?}");
}
