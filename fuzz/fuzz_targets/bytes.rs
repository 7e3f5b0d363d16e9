//! A program's bytes, read one after another. Reading is total: behind the end there are zeros.

/// What is left of the input.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(input: &'a [u8]) -> Bytes<'a> {
        Bytes(input)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `bound`, which is at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.next()) % bound
    }

    #[allow(dead_code)] // Not every target needs it.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Whether the harness is to make its planted mistake, which the check must notice: see
/// `scripts/fuzz.sh --teeth`.
pub fn has_planted_mistake() -> bool {
    static PLANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    // Not named SERIATIM_…: engines made from the environment refuse variables of that name that
    // they do not know.
    *PLANTED.get_or_init(|| std::env::var_os("FUZZ_TEETH").is_some())
}
