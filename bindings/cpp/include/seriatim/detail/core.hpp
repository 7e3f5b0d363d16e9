// `Core`: what the handles of one engine share, and `Kept`: what the engine is asked to delete when
// the last use of a variable is over. `engine.hpp` makes a core; values, variables, results and
// graphs have one.
//
// A core counts two things. Its engines are the `Engine` objects, and calls that use the engine:
// with the last of them the engine ends. Its handles are all that has the core's address, the
// engine itself among them: with the last of them the core is deleted. So a value may outlive its
// engine, and what it is asked to do then fails.

#ifndef SERIATIM_DETAIL_CORE_HPP
#define SERIATIM_DETAIL_CORE_HPP

#include <atomic>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <thread>
#include <utility>

#include <seriatim/detail/sanitizer.hpp>
#include <seriatim/error.hpp>

namespace seriatim::detail {

class Core;

/// Whether operations may commute on a variable.
enum class Sort { plain, commutative };

/// Something that lies behind a variable, and is deleted when the variable's last use is over.
class Kept {
public:
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    Core& core() const noexcept { return core_; }
    SeriatimVariable variable() const noexcept { return variable_; }

    /// Has the engine delete the variable and then this. For the last one who has it.
    void retire() noexcept;

protected:
    /// Makes a variable.
    explicit Kept(Core& core, Sort sort = Sort::plain);
    virtual ~Kept();

private:
    friend class Core;

    void ask() noexcept;

    static int destroy(void* kept, const SeriatimRunContext*) noexcept {
        auto* self = static_cast<Kept*>(kept);
        acquire(self);
        uses_are_seen(self->variable_);
        delete self;
        return 0;
    }

    Core& core_;
    SeriatimVariable variable_;
    bool is_retired_ = false;
    Kept* next_ = nullptr;
};

/// Counts that this thread runs destructors which the engine has called.
inline thread_local int deleters = 0;

struct InsideDeleter {
    InsideDeleter() noexcept { ++deleters; }
    ~InsideDeleter() { --deleters; }
    InsideDeleter(const InsideDeleter&) = delete;
    InsideDeleter& operator=(const InsideDeleter&) = delete;
};

/// Is told of errors that nobody has waited for.
using ErrorHook = std::function<void(ErrorKind kind, const char* operation, const char* text)>;

class Core {
public:
    explicit Core(ErrorHook hook) : hook_(std::move(hook)) {}
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    /// One more handle of the core, and one less.
    void hold() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }

    void let_go() noexcept {
        // AcqRel: who deletes the core has seen what was done with it.
        if (handles_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    /// The engine was made. Called once, by its first owner.
    void begin(SeriatimEngine* engine) noexcept { engine_ = engine; }

    SeriatimEngine* engine() const noexcept { return engine_; }

    void enter() noexcept { engines_.fetch_add(1, std::memory_order_relaxed); }

    /// Enters if the engine has not ended.
    bool try_enter() noexcept {
        std::size_t now = engines_.load(std::memory_order_relaxed);
        while (now != 0) {
            if (engines_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return true;
        }
        return false;
    }

    /// The last one out ends the engine.
    void exit() noexcept {
        // AcqRel: what was done with the engine has been done when it ends.
        if (engines_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
    }

    /// Keeps what the engine has refused to delete: until there may be room for the deletion, or
    /// else until nothing can use it any more.
    void keep(Kept* kept, bool for_want_of_room) noexcept {
        std::atomic<Kept*>& list = for_want_of_room ? waiting_ : kept_;
        kept->next_ = list.load(std::memory_order_relaxed);
        while (!list.compare_exchange_weak(kept->next_, kept, std::memory_order_release,
                                           std::memory_order_relaxed)) {
        }
    }

    /// Asks once more for the deletions that there was no room for.
    void ask_again() noexcept;

    /// Tells of an error that nobody will wait for.
    void tell(ErrorKind kind, const char* operation, const char* text) const noexcept {
        if (hook_) {
            hook_(kind, operation, text);
        } else {
            std::fprintf(stderr, "seriatim: nobody waited for this error: %s\n", text);
        }
    }

    /// The hook of C, whose argument is a handle of the core: it is deleted when the engine and its
    /// graphs are gone.
    static void told(void* core, SeriatimStatus status, const char* operation, const char* text) noexcept {
        static_cast<Core*>(core)->tell(static_cast<ErrorKind>(status), operation, text);
    }

    static void forgotten(void* core) noexcept { static_cast<Core*>(core)->let_go(); }

    /// Has the next wait for everything throw the exception of a function that had given its
    /// completion away.
    void report(const std::exception_ptr& exception) noexcept;

private:
    ~Core() {
        for (std::atomic<Kept*>* list : {&kept_, &waiting_}) {
            Kept* kept = list->load(std::memory_order_acquire);
            while (kept != nullptr) {
                acquire(kept);
                delete std::exchange(kept, kept->next_);
            }
        }
    }

    void end() noexcept {
        SeriatimEngine* engine = std::exchange(engine_, nullptr);
        if (engine == nullptr) return;
        if (deleters > 0) {
            // The engine may have called the destructor that has led here, and would wait for it.
            try {
                std::thread([engine] { seriatim_engine_delete(engine); }).detach();
            } catch (...) {
                tell(ErrorKind::thread_refused, nullptr, "the engine could not be ended: no thread for it");
            }
            return;
        }
        seriatim_engine_delete(engine);
        acquire(this);
    }

    SeriatimEngine* engine_ = nullptr;
    std::atomic<std::size_t> engines_{1};
    std::atomic<std::size_t> handles_{1};
    std::atomic<Kept*> kept_{nullptr};
    std::atomic<Kept*> waiting_{nullptr};
    ErrorHook hook_;
};

/// The engine, for the time of a call. Keeps it from ending.
class Lease {
public:
    /// Throws if the engine has ended.
    explicit Lease(Core& core) : core_(core.try_enter() ? &core : nullptr) {
        if (core_ == nullptr) throw Error(ErrorKind::stopped, "the engine has ended: keep an Engine");
    }

    Lease(Core& core, std::nothrow_t) noexcept : core_(core.try_enter() ? &core : nullptr) {}

    ~Lease() {
        if (core_ != nullptr) core_->exit();
    }

    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    explicit operator bool() const noexcept { return core_ != nullptr; }
    SeriatimEngine* engine() const noexcept { return core_->engine(); }

private:
    Core* core_;
};

inline void Core::report(const std::exception_ptr& exception) noexcept {
    auto fail = [](void* carried, const SeriatimRunContext* run) noexcept {
        acquire(carried);
        tell_exception(*static_cast<std::exception_ptr*>(carried), [run](const char* text, void* object) {
            seriatim_run_context_set_error_object(run, text, object, delete_exception);
        });
        return 1;
    };
    Lease lease(*this, std::nothrow);
    auto* carried = new (std::nothrow) std::exception_ptr(exception);
    if (carried != nullptr) release(carried);
    SeriatimOperation operation{};
    operation.property = SERIATIM_PROPERTY_NO_SKIP;
    if (lease && carried != nullptr &&
        seriatim_push(lease.engine(), &operation, fail, carried, delete_exception) == SERIATIM_STATUS_OK) {
        return;
    }
    if (!lease) delete carried;
    tell_exception(exception, [this](const char* text, void* object) {
        tell(ErrorKind::operation_failed, nullptr, text);
        delete_exception(object);
    });
}

inline Kept::Kept(Core& core, Sort sort) : core_(core) {
    core.ask_again();
    auto make = sort == Sort::plain ? seriatim_variable_new : seriatim_variable_new_commutative;
    check(make(Lease(core).engine(), &variable_));
    core.hold();
}

inline Kept::~Kept() {
    if (is_retired_) return;
    // What derives from it could not be made.
    Lease lease(core_, std::nothrow);
    if (lease) {
        seriatim_variable_delete(lease.engine(), variable_, SeriatimContext{}, nullptr, nullptr, nullptr);
    }
    core_.let_go();
}

inline void Kept::retire() noexcept {
    Core& core = core_;
    is_retired_ = true;
    release(this);
    ask();
    core.let_go();
}

inline void Kept::ask() noexcept {
    Lease lease(core_, std::nothrow);
    Core& core = core_;
    SeriatimStatus status = SERIATIM_STATUS_STOPPED;
    if (lease) status = seriatim_variable_delete(lease.engine(), variable_, SeriatimContext{}, destroy, this, nullptr);
    // A refused deletion leaves everything as it is: an operation in flight may use it.
    if (status != SERIATIM_STATUS_OK) core.keep(this, status == SERIATIM_STATUS_ENGINE_FULL);
}

inline void Core::ask_again() noexcept {
    if (waiting_.load(std::memory_order_relaxed) == nullptr) return;
    Kept* kept = waiting_.exchange(nullptr, std::memory_order_acquire);
    while (kept != nullptr) std::exchange(kept, kept->next_)->ask();
}

}  // namespace seriatim::detail

#endif
