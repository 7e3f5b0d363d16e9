//! `Dealt`: the generators and temporary spaces of one kind of memory, which calls get in turn.
//!
//! Used by `manager.rs`, which has those of the processor and those of each device, on the thread
//! that calls an operator.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::resource::granted::{Granted, ResourceRequest};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

/// The most generators that a runtime has for a context.
pub(crate) const MOST_GENERATORS: usize = 64;

/// The most temporary spaces that one call gets.
const MOST_SPACES: usize = 8;

/// Generators and spaces, which are dealt out in turn.
#[derive(Debug)]
pub(super) struct Dealt<G, S> {
    generators: Vec<G>,
    /// Spaces for the first request of a call, for its second, and so on, made when a call needs
    /// them.
    spaces: [OnceLock<Vec<S>>; MOST_SPACES],
    /// How many spaces there are for each request.
    count: usize,
    /// How many generators and spaces were granted.
    dealt_generators: AtomicUsize,
    dealt_spaces: AtomicUsize,
}

impl<G, S> Dealt<G, S> {
    pub fn new(generators: Vec<G>, count: usize) -> Dealt<G, S> {
        Dealt {
            generators,
            spaces: [const { OnceLock::new() }; MOST_SPACES],
            count,
            dealt_generators: AtomicUsize::new(0),
            dealt_spaces: AtomicUsize::new(0),
        }
    }

    /// All generators, in the order of their streams.
    pub fn generators(&self) -> &[G] {
        &self.generators
    }

    /// The spaces that were made.
    pub fn spaces(&self) -> impl Iterator<Item = &S> {
        self.spaces.iter().filter_map(OnceLock::get).flatten()
    }

    /// How many spaces there are for each request.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The generator for the next draw.
    pub fn next_generator(&self) -> &G {
        &self.generators[self.dealt_generators.fetch_add(1, Relaxed) % self.generators.len()]
    }

    /// Has the next draw be by the first generator, so numbers follow from the seed and from the
    /// calls after it.
    pub fn deal_from_first(&self) {
        self.dealt_generators.store(0, Relaxed);
    }

    /// What a call asks for. Requests of one kind get different resources.
    pub fn grant(
        &self,
        requests: &[ResourceRequest],
        make_space: impl Fn() -> Result<S, Error>,
        (random, space): (impl Fn(&G) -> Granted, impl Fn(&S) -> Granted),
    ) -> Result<SmallVec<[Granted; 1]>, Error> {
        let draws = requests.iter().filter(|request| **request == ResourceRequest::Random).count();
        if draws > self.generators.len() {
            let message = format!(
                "an operator asks for {draws} generators, and there are {}: make the runtime with more by \
                 RuntimeBuilder::generators, up to {MOST_GENERATORS}",
                self.generators.len()
            );
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let mut next = if draws == 0 { 0 } else { self.dealt_generators.fetch_add(draws, Relaxed) };
        let mut spaces = self.spaces.iter();
        let each = requests.iter().map(|request| match request {
            ResourceRequest::Random => {
                let generator = &self.generators[next % self.generators.len()];
                next = next.wrapping_add(1);
                Ok(random(generator))
            }
            ResourceRequest::TempSpace => {
                let Some(alike) = spaces.next() else {
                    let message = format!("an operator asks for more than {MOST_SPACES} temporary spaces: divide one");
                    return Err(Error::new(ErrorKind::BadParameter, message));
                };
                let alike = match alike.get() {
                    Some(alike) => alike,
                    None => {
                        let made = (0..self.count).map(|_| make_space()).collect::<Result<_, Error>>()?;
                        alike.get_or_init(|| made)
                    }
                };
                Ok(space(&alike[self.dealt_spaces.fetch_add(1, Relaxed) % self.count]))
            }
        });
        each.collect()
    }
}
