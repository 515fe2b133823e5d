#pragma once

#include "base/error.hpp"
#include "tls/context.hpp"
#include "tls/file.hpp"

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace etls::tls {

/// Contexts by what they were made of, so that equal options share one and files are read once. A file that has changed
/// (its identity, size or times) is read again by the next `get`. Failures are not kept. For any thread.
class context_cache {
public:
    /// Contexts kept; the least recently used goes first. A listener or connection keeps its own alive meanwhile.
    static constexpr std::size_t capacity = 128;

    result<std::shared_ptr<const context>> get(role, const context_options&);

    /// Forgets all, the system's certificates included: everything is read again.
    void clear();

    [[nodiscard]] std::size_t size() const;

private:
    struct entry {
        role side;
        context_options options;
        std::vector<file_identity> files;
        std::shared_ptr<const context> made;
    };

    [[nodiscard]] std::shared_ptr<const context> find(role, const context_options&, const std::vector<file_identity>&);

    mutable std::mutex mutex_;
    std::list<entry> entries_; // most recently used first
};

} // namespace etls::tls
