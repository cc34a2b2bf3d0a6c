//! The functions that templates of a chart may call: sprig's and Helm's own.

/// All of them.
pub fn functions() -> &'static convoy_gotemplate::Functions {
    static F: std::sync::LazyLock<convoy_gotemplate::Functions> =
        std::sync::LazyLock::new(convoy_gotemplate::Functions::new);
    &F
}
