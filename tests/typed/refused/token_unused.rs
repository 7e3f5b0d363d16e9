//~ error: unused `CancelToken` that must be used
//~ a token cancels only what is pushed with it
// A token that nothing is pushed with.
#![deny(unused_must_use)]
use seriatim::CancelToken;

fn main() {
    let token = CancelToken::new();
    CancelToken::new(); // refused
    token.cancel();
}
