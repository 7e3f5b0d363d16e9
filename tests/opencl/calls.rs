//! Each call of the seam, without an engine: what `Backend` promises of streams and marks.

use crate::backend::{Bug, OpenCl};
use crate::common::eventually;
use crate::kernels::WORDS;
use seriatim::gpu::{Backend, Class, RawMark, RawStream};
use std::sync::Arc;
use std::time::Duration;

const ADD_ONE: [u32; 3] = [1, 0, 1];

/// A back end, with the calls that a test makes.
struct Calls(Arc<OpenCl>);

impl Calls {
    fn on_each_back_end(test: impl Fn(&Calls)) {
        for is_lazy in [false, true] {
            let Some(opencl) = OpenCl::new(Bug::Nothing, is_lazy) else { return };
            test(&Calls(Arc::clone(&opencl)));
            assert_eq!(opencl.left(), (0, 0));
        }
    }

    fn stream(&self, class: Class) -> RawStream {
        self.0.stream(0, class).expect("the driver makes queues")
    }

    fn mark(&self) -> RawMark {
        self.0.mark(0).expect("a mark is only memory")
    }

    fn record(&self, mark: RawMark, stream: RawStream) {
        // SAFETY: a test gives handles of this back end, and not after `give_back`.
        unsafe { self.0.record(mark, stream) }.expect("the driver makes markers");
    }

    fn wait(&self, stream: RawStream, mark: RawMark) {
        // SAFETY: as in `record`.
        unsafe { self.0.wait(stream, mark) }.expect("the driver makes barriers");
    }

    fn reached(&self, mark: RawMark) -> bool {
        // SAFETY: as in `record`.
        unsafe { self.0.reached(mark) }.expect("nothing fails")
    }

    fn give_back<const MARKS: usize, const STREAMS: usize>(
        &self,
        marks: [RawMark; MARKS],
        streams: [RawStream; STREAMS],
    ) {
        // SAFETY: as in `record`, and nothing is queued.
        marks.into_iter().for_each(|mark| unsafe { self.0.drop_mark(mark) });
        // SAFETY: as above.
        streams.into_iter().for_each(|stream| unsafe { self.0.drop_stream(stream) });
    }
}

#[test]
fn a_mark_is_reached_when_what_is_before_it_is_done() {
    Calls::on_each_back_end(|calls| {
        let (opencl, stream, mark) = (&calls.0, calls.stream(Class::Compute), calls.mark());
        let cell = opencl.cell();
        let hold = opencl.hold(stream);
        opencl.blend(stream, [&cell, &cell], ADD_ONE, 7).unwrap();
        calls.record(mark, stream);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!calls.reached(mark));
        assert_eq!(opencl.load(&cell), [0; WORDS]);
        hold.end();
        eventually("it is reached", || calls.reached(mark));
        assert_eq!(opencl.load(&cell), [7; WORDS]);
        calls.give_back([mark], [stream]);
    });
}

#[test]
fn who_waits_for_a_mark_waits_for_where_it_was() {
    Calls::on_each_back_end(|calls| {
        let [one, two] = [Class::Compute, Class::ToDevice].map(|class| calls.stream(class));
        let [moves, behind] = [(); 2].map(|()| calls.mark());
        let first = calls.0.hold(one);
        calls.record(moves, one);
        calls.wait(two, moves);
        calls.record(behind, two);
        let second = calls.0.hold(one);
        calls.record(moves, one);
        assert_eq!([moves, behind].map(|mark| calls.reached(mark)), [false, false]);
        first.end();
        eventually("the other stream goes on", || calls.reached(behind));
        assert!(!calls.reached(moves), "it has moved behind the second hold");
        second.end();
        eventually("it is reached", || calls.reached(moves));
        calls.give_back([moves, behind], [one, two]);
    });
}

#[test]
fn a_stream_is_finished_when_all_of_it_is_done() {
    Calls::on_each_back_end(|calls| {
        let (opencl, stream) = (&calls.0, calls.stream(Class::Urgent));
        let (cell, host) = (opencl.cell(), opencl.host_cell());
        opencl.store(&host, &[3; WORDS]);
        opencl.copy(stream, &cell, &host).unwrap();
        opencl.blend(stream, [&cell, &cell], ADD_ONE, 2000).unwrap();
        opencl.copy(stream, &host, &cell).unwrap();
        // SAFETY: it is a stream of this back end.
        unsafe { opencl.finish(stream) }.unwrap();
        assert_eq!(opencl.load(&host), [2003; WORDS]);
        calls.give_back([], [stream]);
    });
}
