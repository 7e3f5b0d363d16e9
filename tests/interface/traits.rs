//! What the public types can be used for, by the traits that they have.

use crate::common::*;
use seriatim::gpu::*;
use seriatim::*;
use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{catch_unwind, RefUnwindSafe, UnwindSafe};

#[test]
fn everything_can_be_sent_shared_and_shown() {
    fn shared<T: Send + Sync + Debug>() {}
    shared::<(Engine, Builder, Settings, Operator, Graph, Parameter<u8>, Variable, Data<u8>)>();
    shared::<(Completion, Context, Device, Property, Name, Error, ErrorKind, Kind, IdlePolicy, WhenFull)>();
    shared::<(Profile, Event, Summary, Times, Use, DeviceSpan, StreamName, Overlap, RunContext<'_>)>();
    shared::<(DeviceHandle, AdoptedStream, DeviceData<u8>, PinnedData<u8>, Immediate, DriverError, MemoryUsage)>();
    shared::<(Class, MemoryKind, Pending<u8>, WhenFree, WhenAllEnded)>();
    shared::<(RawStream, RawMark, RawMemory, RawGraph, Previous)>();
    shared::<(Value<u8>, Value<[u8]>, Value<Cell<u8>>, Each<'_, u8>, EachMut<'_, u8>, Write<&Value<u8>>)>();
    shared::<(EachIter<'_, u8>, EachIterMut<'_, u8>, CancelToken, StartLimits, Pipeline, Instances)>();
    shared::<(Stats, WorkerStats, PoolStats, CriticalPath)>();
    shared::<(Reduction<Cell<u8>>, Reduce<&Reduction<u8>>, DeviceSlice<'_, u8>, DeviceSliceMut<'_, u8>)>();
    #[cfg(feature = "cuda")]
    shared::<Cuda>();
    fn seam<T: Send + Sync + ?Sized>() {}
    seam::<dyn Backend>();
    seam::<dyn DeviceMemory>();
    seam::<dyn DeviceClock>();
    seam::<dyn DeviceGraphs>();
    // Other threads may use a borrow where it is: it ends on the thread that took it.
    fn lent<T: Sync + Debug>() {}
    lent::<(Ref<'_, u8>, RefMut<'_, u8>, PinnedRef<'_, u8>, PinnedRefMut<'_, u8>)>();
    // Builders may be handed on, and closures are sent with them; what is borrowed of an operation
    // stays.
    fn sent<T: Send>() {}
    sent::<(Capture, CaptureBuilder<'_>, OperationBuilder<'_>, KeyedBuilder<'_>)>();
    fn shown<T: Debug>() {}
    shown::<(
        OperationBuilder<'_>,
        KeyedBuilder<'_>,
        Capture,
        CaptureBuilder<'_>,
        RunContext<'_>,
        Ref<'_, u8>,
        RefMut<'_, u8>,
        ReadGuard<'_, u8>,
        WriteGuard<'_, u8>,
    )>();
    lent::<(ReadGuard<'_, u8>, WriteGuard<'_, u8>)>();
    fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}
    unwinds::<(Engine, Builder, Operator, Graph, Variable, Error)>();
    unwinds::<(Value<Cell<u8>>, Data<Cell<u8>>, DeviceData<u8>, PinnedData<u8>, Parameter<Cell<u8>>)>();
    unwinds::<(Pending<Cell<u8>>, WhenFree, WhenAllEnded, Completion, CancelToken, StartLimits)>();
    unwinds::<(DeviceHandle, AdoptedStream, Immediate, DriverError, RawStream, Overlap, DeviceSpan)>();
}

#[test]
fn values_can_be_compared_kept_and_written_as_their_kind_allows() {
    fn value<T: Copy + Eq + std::hash::Hash + Debug>() {}
    value::<(Variable, Context, Device, Property, Name, ErrorKind, Kind, IdlePolicy, WhenFull, Use)>();
    fn figures<T: Clone + PartialEq + Debug>() {}
    value::<(Class, MemoryKind, StreamName, RawStream, RawMark, RawMemory, RawGraph, Previous)>();
    figures::<(Settings, Summary, Times, DeviceSpan, Overlap, MemoryUsage, DriverError)>();
    fn empty<T: Default + PartialEq + Debug>() {}
    empty::<(Stats, WorkerStats, PoolStats, Times, Overlap, CriticalPath, MemoryUsage)>();
    fn is_copied<T: Copy>() {}
    is_copied::<(DeviceSpan, Overlap, MemoryUsage)>();
    fn handle<T: Clone>() {}
    handle::<(Engine, Builder, Operator, Parameter<u8>, Data<u8>, Value<u8>, Value<[u8]>, Error, Profile, Event)>();
    handle::<(DeviceHandle, AdoptedStream, DeviceData<u8>, PinnedData<u8>)>();
    let mut names = [Name::from("scale"), Name::from(String::from("add"))];
    names.sort();
    assert_eq!(format!("{:>5}|{}", names[0], names[1]), "  add|scale");
    assert_eq!(AsRef::<str>::as_ref(&names[0]), names[0].as_str());
}

#[test]
fn an_engine_goes_through_a_panic() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let unwound = catch_unwind(|| {
            engine.op("step").writes([x]).push(nothing).unwrap();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(unwound.is_err());
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}

#[test]
fn what_is_only_written_need_not_be_sync() {
    on_every_engine(|engine| {
        let count = Data::new(&engine, Cell::new(0));
        for _ in 0..100 {
            let own = count.clone();
            let step = move |_: &RunContext<'_>| own.write().map(|cell| cell.set(cell.get() + 1));
            engine.op("count").write(&count).push(step).unwrap();
        }
        engine.wait_for_var(count.variable()).unwrap();
        assert_eq!(count.write().unwrap().get(), 100);
    });
}
