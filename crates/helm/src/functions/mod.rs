//! The functions that templates of a chart may call: sprig's and Helm's own.
