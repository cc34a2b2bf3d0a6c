//! The `--set` family.

#![no_main]

use convoy_helm::{Data, TemplateFlags, Values, set_text};
use libfuzzer_sys::fuzz_target;

fn merged(flags: &TemplateFlags) -> Option<Values> {
    flags
        .merge_values(&mut |name| if name.len() > 3 { Err("too long".to_owned()) } else { Ok(name.into()) })
        .ok()
}

fuzz_target!(|text: &str| {
    let given = || vec![text.to_owned()];
    let plain = TemplateFlags::default;
    let flags = [
        TemplateFlags { set: given(), ..plain() },
        TemplateFlags { set_string: given(), ..plain() },
        TemplateFlags { set_file: given(), ..plain() },
        TemplateFlags { set_json: given(), ..plain() },
        TemplateFlags { set_literal: given(), ..plain() },
    ];
    for flags in &flags {
        let (once, again) = (merged(flags), merged(flags));
        assert!(once == again);
    }
    let Some((key, value)) = text.split_once('=') else { return };
    if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let values = merged(&flags[4]).expect("a plain key takes any text");
        assert!(values.get(key.as_bytes()) == Some(&Data::String(value.into())));
        let mut values = Values::new();
        set_text(key, value, &mut values).expect("a plain path takes any text");
        assert!(values.get(key.as_bytes()) == Some(&Data::String(value.into())));
    }
    let _ = set_text(key, value, &mut Values::new());
});
