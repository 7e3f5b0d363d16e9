# Mistakes for scripts/python.sh --teeth: bite NAME FILE FROM TO TESTS…

bite "a wait that keeps the GIL" src/bell.rs \
    'py.detach(|| self.sleep(left.map_or(NAP, |left| left.min(NAP)), &is_over));' \
    'self.sleep(left.map_or(NAP, |left| left.min(NAP)), &is_over);' 'test_waits.py::test_a_wait_lets_other_threads_run'
bite "a wait that looks for no signals" src/bell.rs 'py.check_signals()?;' '' 'test_waits.py::test_ctrl_c_ends_a_wait'
bite "an operation that forgets its reads" src/operation.rs \
    'Arg::Read(resource) => resource.get().for_variables(|variable| reads.push(variable)),' \
    'Arg::Read(_) => {}' test_oracle.py
bite "an operation that changes what it only reads" src/operation.rs \
    'Arg::Read(resource) => (resource.get(), false),' 'Arg::Read(resource) => (resource.get(), true),' test_arrays.py
bite "a whole array without its last tile" src/resource.rs \
    'parts => parts.iter().for_each' 'parts => parts.iter().skip(1).for_each' test_arrays.py
bite "a failure that marks nothing" src/operation.rs \
    'shared.add_failure(&failure);
        self.changed().for_each(|resource| resource.set_mark(&failure));' \
    'shared.add_failure(&failure);' test_failures.py
bite "a skip that marks nothing" src/operation.rs \
    'self.changed().for_each(|resource| resource.set_mark(&failure));
                        return' 'return' test_oracle.py
bite "a failure that is taken from what came before the wait" src/failure.rs \
    'order < self.taken.load(Acquire)' 'self.is_live()' test_failures.py
bite "a callback whose exception is lost" src/pending.rs \
    'error.write_unraisable(py, Some(function.bind(py)));' 'drop(error);' test_failures.py
bite "an exception that no wait has taken and nobody hears of" src/shared.rs \
    'exception.write_unraisable(py, None);' 'drop(exception);' 'test_ends.py::test_an_exception_that_nobody_takes_is_told'
bite "a runner that gives up the GIL after each call" src/queue.rs \
    'self.plain.pop().or_else' 'std::thread::yield_now(); if self.wakes.fetch_add(1, Relaxed) % 2 == 0 { return None; } self.plain.pop().or_else' \
    'test_cost.py::test_a_runner_that_has_the_gil_calls_many_functions'
bite "a runner that keeps the GIL" src/runner.rs \
    'py.detach(|| ());' '' 'test_cost.py::test_a_runner_lets_others_have_the_gil'
bite "a push that wakes nobody" src/queue.rs \
    'self.call_one();
    }

    fn pop_ranked' '}

    fn pop_ranked' test_basics.py
bite "priorities the wrong way round" src/operation.rs \
    'self.priority().cmp(&other.priority())' 'other.priority().cmp(&self.priority())' test_basics.py
bite "a wait inside an operation" src/runner.rs 'if !is_inside(shared) {' 'if true {' \
    'test_waits.py::test_an_operation_must_not_wait_for_its_engine'
bite "an engine of the parent in a child" src/ends.rs \
    'FORKS.fetch_add(1, Relaxed);' '' test_ends.py
bite "a process that does not wait for its engines" src/ends.rs \
    'for shared in engines {' 'for shared in engines.into_iter().take(0) {' test_ends.py
bite "an await that never hears of its result" python/seriatim/_aio.py \
    'self._is_called = False
        while' 'while' test_aio.py
bite "arrays that overlap, unseen" python/seriatim/_arrays.py 'raise OverlapError(
                f"the array shares' 'continue; (
                f"the array shares' test_arrays.py
bite "a view that is not taken back" python/seriatim/_arrays.py 'if is_write and isinstance(thing, np.ndarray):' 'if False:' test_arrays.py
