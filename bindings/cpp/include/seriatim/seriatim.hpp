// The C++ interface of seriatim, a dependency engine: push functions, say which values each reads
// and which it changes, and they run in parallel in a safe order.
//
//     #include <seriatim/seriatim.hpp>
//
// It is made of headers alone, over the C interface (`seriatim.h`), and needs C++17. README.md in
// the folder of this binding has a first program, and says what costs what.

#ifndef SERIATIM_HPP
#define SERIATIM_HPP

#include <seriatim/access.hpp>
#include <seriatim/capture.hpp>
#include <seriatim/completion.hpp>
#include <seriatim/engine.hpp>
#include <seriatim/error.hpp>
#include <seriatim/guard.hpp>
#include <seriatim/operation.hpp>
#include <seriatim/pending.hpp>
#include <seriatim/reduction.hpp>
#include <seriatim/run_context.hpp>
#include <seriatim/settings.hpp>
#include <seriatim/span.hpp>
#include <seriatim/value.hpp>
#include <seriatim/variable.hpp>

#endif
