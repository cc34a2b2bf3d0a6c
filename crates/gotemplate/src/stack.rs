//! Room on the machine's stack for recursion that templates steer.

// What one level of any recursion in this crate may need before it asks again, with the frames of
// an unoptimised build.
const RED_ZONE: usize = 192 * 1024;
const SEGMENT: usize = 2 * 1024 * 1024;

/// Runs `run` with enough stack, on a new segment when the present one nears its end. Recursion depth
/// is limited by the callers, so the segments are too.
pub fn with_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, SEGMENT, run)
}
