//! Numbers drawn at random for unit tests, the same ones in each run, by Marsaglia's xorshift
//! generator of 32 bits. The state lies in the closure that the test has.

#![forbid(unsafe_code)]

/// Draws numbers below a bound, from a seed that is not 0.
pub fn random(seed: u32) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % below
    }
}
