// `Settings`: what an engine is made with.

#ifndef SERIATIM_SETTINGS_HPP
#define SERIATIM_SETTINGS_HPP

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <seriatim/detail/core.hpp>
#include <seriatim/error.hpp>

namespace seriatim {

/// The settings of an engine, by the names that `SeriatimSetting` lists.
///
///     seriatim::Engine engine(seriatim::Settings().kind("pooled").cpu_workers(4));
class Settings {
public:
    Settings() = default;

    /// Begins with the settings of the environment, which what is set afterwards overrides.
    static Settings from_environment() {
        Settings settings;
        settings.reads_environment_ = true;
        return settings;
    }

    /// Any setting, such as `set("IDLE", "park")`. The engine's constructor says what is wrong with
    /// it.
    Settings& set(std::string key, std::string value) {
        pairs_.emplace_back(std::move(key), std::move(value));
        return *this;
    }

    /// `per-device` (the default), `pooled` or `naive`.
    Settings& kind(std::string kind) { return set("ENGINE", std::move(kind)); }
    Settings& cpu_workers(std::size_t count) { return set("CPU_WORKERS", std::to_string(count)); }

    /// Operations in flight at most, 0 for no bound.
    Settings& bound(std::size_t operations) { return set("BOUND", std::to_string(operations)); }

    /// Nanoseconds: operations whose functions have lately taken less run inside their push.
    Settings& inline_below(std::size_t nanoseconds) { return set("INLINE_BELOW", std::to_string(nanoseconds)); }

    /// Whether a thread that waits without a limit runs operations meanwhile.
    Settings& waiters_help(bool help) { return set("WAITERS_HELP", help ? "on" : "off"); }

    /// Gives the engine GPUs that are the processor.
    Settings& immediate_gpus(std::size_t count) {
        gpus_ = count;
        return *this;
    }

    /// Chooses who is told of an error that nobody waited for, when the engine ends; else a line on
    /// standard error is. It must not throw.
    Settings& on_error(detail::ErrorHook hook) {
        hook_ = std::move(hook);
        return *this;
    }

    /// Makes the engine of a core. For `Engine`.
    static detail::Core* make(const Settings& settings) {
        struct Deletes {
            SeriatimBuilder* builder = nullptr;
            ~Deletes() { seriatim_builder_delete(builder); }
        } made;
        detail::check(settings.reads_environment_ ? seriatim_builder_from_environment(&made.builder)
                                                  : seriatim_builder_new(&made.builder));
        std::vector<SeriatimSetting> pairs;
        for (const auto& [key, value] : settings.pairs_) pairs.push_back({key.c_str(), value.c_str()});
        detail::check(seriatim_builder_set(made.builder, pairs.data(), pairs.size()));
        if (settings.gpus_ > 0) detail::check(seriatim_builder_immediate_gpus(made.builder, settings.gpus_));
        auto* core = new detail::Core(settings.hook_);
        core->hold();  // The hook's.
        SeriatimEngine* engine = nullptr;
        SeriatimStatus status =
            seriatim_builder_on_error(made.builder, detail::Core::told, core, detail::Core::forgotten);
        if (status == SERIATIM_STATUS_OK) {
            status = seriatim_builder_build(std::exchange(made.builder, nullptr), &engine);
        }
        if (status != SERIATIM_STATUS_OK) {
            std::exception_ptr failure = detail::last_exception(status);
            core->let_go();
            std::rethrow_exception(failure);
        }
        core->begin(engine);
        return core;
    }

private:
    std::vector<std::pair<std::string, std::string>> pairs_;
    bool reads_environment_ = false;
    std::size_t gpus_ = 0;
    detail::ErrorHook hook_;
};

}  // namespace seriatim

#endif
