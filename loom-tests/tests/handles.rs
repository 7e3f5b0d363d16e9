//! The handles of the C interface: places come back once, as they were left; of several uses of a
//! handle one succeeds, and none ends what has the place after it.

#![cfg(loom)]

use loom_tests::handle::{number, Lent, Refused, ThreeWords};
use loom_tests::stock::{Content, Place, Registry, Stock};
use loom_tests::{explore, spawn, Guarded};
use std::collections::BTreeSet;

/// What lies in a place, where only the places matter.
struct Slot {
    number: u32,
    value: Guarded,
}

impl Content for Slot {
    const LAST: u32 = 15;

    fn new(number: u32) -> Slot {
        Slot { number, value: Guarded::new() }
    }
}

/// For one execution: places are never freed.
fn registry<T: Content>() -> &'static Registry<T> {
    Box::leak(Box::new(Registry::new()))
}

fn stays() -> bool {
    true
}

/// Takes a place and uses it, which is a race if the last user has not done with it.
fn taken(stock: &Stock<Slot>, registry: &Registry<Slot>) -> &'static Place<Slot> {
    let place = stock.place(registry, stays);
    place.content.value.step();
    place
}

/// Uses a place and gives it back.
fn give_back(stock: &Stock<Slot>, place: &'static Place<Slot>) {
    place.content.value.step();
    // SAFETY: the place is the caller's.
    unsafe { stock.give_back(place) };
}

#[test]
fn what_two_threads_give_back_comes_back() {
    explore("handles, one thread takes and two give back", 3, 1000, || {
        let registry = registry();
        let stock = Stock::new();
        let places = [taken(&stock, registry), taken(&stock, registry)];
        let others = places.map(|place| spawn(move || give_back(&Stock::new(), place)));
        let held = [taken(&stock, registry), taken(&stock, registry)];
        assert_ne!(held[0].content.number, held[1].content.number, "a place was taken twice");
        others.into_iter().for_each(|other| other.join().unwrap());
        held.into_iter().for_each(|place| give_back(&stock, place));
        let known: BTreeSet<u32> = places.iter().chain(&held).map(|place| place.content.number).collect();
        let again: BTreeSet<u32> = known.iter().map(|_| taken(&stock, registry).content.number).collect();
        assert_eq!(again, known, "a place was lost, or came back twice");
    });
}

#[test]
fn a_stock_is_left_and_taken_over_while_a_third_thread_gives_back() {
    explore("handles, a stock is taken over", 3, 300, || {
        let registry = registry();
        let stock = Stock::new();
        let (one, other) = (taken(&stock, registry), taken(&stock, registry));
        let new = other.content.number + 1;
        let third = spawn(move || give_back(&Stock::new(), other));
        let next = spawn(move || {
            let stock = Stock::new();
            let place = taken(&stock, registry);
            give_back(&stock, place);
            stock.leave();
            place.content.number
        });
        give_back(&stock, one);
        stock.leave();
        third.join().unwrap();
        let found = next.join().unwrap();
        // Who makes a place does so in a stock of its own, the newest: where no place lay.
        let heir = Stock::new();
        let came = taken(&heir, registry).content.number;
        assert_eq!(came == new, found == new, "a place was made beside one that lay there");
    });
}

/// A completion: it says of which use of a place it is, so that a mixture of two is noticed.
#[repr(C)]
struct Token {
    ended: Guarded,
    which: usize,
    check: usize,
}

// SAFETY: a pointer and two numbers.
unsafe impl ThreeWords for Token {}

impl Token {
    fn new(ended: &Guarded, which: usize) -> Token {
        Token { ended: ended.clone(), which, check: !which }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        assert_eq!(self.check, !self.which, "a mixture of two completions");
        self.ended.step();
    }
}

/// An argument, which is deleted once.
struct Argument(Guarded);

impl Drop for Argument {
    fn drop(&mut self) {
        self.0.step();
    }
}

type Handles = Registry<Lent<Token, Argument>>;

/// What C does with a handle, on a thread of its own: returns which completion it has ended.
fn used(registry: &Handles, handle: usize) -> Result<usize, Refused> {
    let stock = Stock::new();
    let place = registry.find(number(handle)).expect("it was lent");
    // SAFETY: the last one gives it back.
    let token = place.content.take(handle, || unsafe { stock.give_back(place) })?;
    Ok(token.which)
}

/// Lends a place of the stock.
fn lend(
    stock: &Stock<Lent<Token, Argument>>,
    registry: &Handles,
    token: Token,
    argument: &Guarded,
) -> (&'static Place<Lent<Token, Argument>>, usize) {
    let place = stock.place(registry, stays);
    // SAFETY: the place is this call's.
    (place, unsafe { place.content.lend(token, Argument(argument.clone())) })
}

#[test]
fn of_two_uses_of_a_handle_one_succeeds_and_the_next_handle_is_untouched() {
    explore("handles, two uses while the function returns", 3, 1000, || {
        let registry: &'static Handles = registry();
        let stock = Stock::new();
        let [ended, deleted, ended_next, deleted_next] = std::array::from_fn(|_| Guarded::new());
        let (place, handle) = lend(&stock, registry, Token::new(&ended, 1), &deleted);
        let users = [(); 2].map(|()| spawn(move || used(registry, handle)));
        // SAFETY: the frame's share.
        unsafe { place.content.returned(|| stock.give_back(place)) };
        // Often in the same place.
        let (place, next) = lend(&stock, registry, Token::new(&ended_next, 2), &deleted_next);
        let mut outcomes = users.map(|user| user.join().unwrap());
        outcomes.sort_by_key(Result::is_err);
        assert_eq!(outcomes, [Ok(1), Err(Refused::Used)]);
        assert_eq!((ended.get(), deleted.get()), (1, 1));
        assert_eq!((ended_next.get(), deleted_next.get()), (0, 0), "another operation was touched");
        assert_eq!(used(registry, next), Ok(2));
        // SAFETY: the frame's share.
        unsafe { place.content.returned(|| stock.give_back(place)) };
        assert_eq!((ended_next.get(), deleted_next.get()), (1, 1));
        assert_eq!([handle, next].map(|handle| used(registry, handle)), [Err(Refused::Used), Err(Refused::Used)]);
    });
}

#[test]
fn the_argument_outlives_those_who_use_it() {
    explore("handles, a use while the function returns", 4, 10, || {
        let registry: &'static Handles = registry();
        let stock = Stock::new();
        let (ended, deleted) = (Guarded::new(), Guarded::new());
        let (place, handle) = lend(&stock, registry, Token::new(&ended, 1), &deleted);
        let theirs = deleted.clone();
        let user = spawn(move || {
            assert_eq!(theirs.get(), 0, "deleted early");
            used(registry, handle)
        });
        assert_eq!(deleted.get(), 0, "deleted early");
        // SAFETY: the frame's share.
        unsafe { place.content.returned(|| stock.give_back(place)) };
        assert_eq!(user.join().unwrap(), Ok(1));
        assert_eq!((ended.get(), deleted.get()), (1, 1), "ended and deleted once");
    });
}

#[test]
fn a_function_that_unwinds_or_a_use_of_its_handle_ends_the_operation() {
    explore("handles, a use while the function unwinds", 4, 50, || {
        let registry: &'static Handles = registry();
        let stock = Stock::new();
        let (ended, deleted) = (Guarded::new(), Guarded::new());
        let (place, handle) = lend(&stock, registry, Token::new(&ended, 1), &deleted);
        let user = spawn(move || used(registry, handle));
        // SAFETY: the frame's share.
        unsafe { place.content.unwound(|| stock.give_back(place)) };
        let outcome = user.join().unwrap();
        assert!([Ok(1), Err(Refused::Ended)].contains(&outcome), "{outcome:?}");
        assert_eq!((ended.get(), deleted.get()), (1, 1), "ended and deleted once");
        assert!(std::ptr::eq(stock.place(registry, stays), place), "the place did not come back");
        assert!(!std::ptr::eq(stock.place(registry, stays), place), "the place came back twice");
    });
}
