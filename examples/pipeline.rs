//! A pipeline: chunks go through three stages side by side, and come out in order.
//!
//!   cargo run --release --example pipeline

use seriatim::{Data, Engine, Error};

const CHUNKS: usize = 50;
const LENGTH: usize = 2_000;
const BUFFERS: usize = 4;

fn is_prime(n: usize) -> bool {
    n > 1 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)
}

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let buffers: Vec<_> = (0..BUFFERS).map(|_| Data::new(&engine, Vec::new())).collect();
    let primes = Data::new(&engine, Vec::new());
    for chunk in 0..CHUNKS {
        // Each buffer serves every fourth chunk. Its next 'fill' waits until 'append' has read it.
        let buffer = &buffers[chunk % BUFFERS];
        let to = buffer.clone(); // a handle to the same value, for the closure
        engine.op("fill").write(buffer).push(move |_| {
            to.write()?.extend(chunk * LENGTH..(chunk + 1) * LENGTH);
            Ok::<(), Error>(())
        })?;
        // The work: different buffers are filtered at the same time.
        let numbers = buffer.clone();
        engine.op("filter").write(buffer).push(move |_| {
            numbers.write()?.retain(|n| is_prime(*n));
            Ok::<(), Error>(())
        })?;
        // Every 'append' writes `primes`: so they run in the order in which they are pushed here.
        let (from, to) = (buffer.clone(), primes.clone());
        engine.op("append").writes([buffer.variable(), primes.variable()]).push(move |_| {
            to.write()?.append(&mut *from.write()?); // leaves the buffer empty
            Ok::<(), Error>(())
        })?;
    }
    engine.wait_for_var(primes.variable())?; // until the last 'append' has run

    let primes = primes.read()?;
    println!("{} primes below {}, the last is {}", primes.len(), CHUNKS * LENGTH, primes[primes.len() - 1]);
    assert_eq!((primes.len(), primes[primes.len() - 1]), (9_592, 99_991));
    assert!(primes.is_sorted(), "the chunks came out in order");
    Ok(())
}
