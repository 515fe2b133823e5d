#include "tls/context_cache.hpp"

#include "tls/trust.hpp"

#include <algorithm>
#include <utility>

namespace etls::tls {

namespace {

std::vector<file_identity> identify_files(const context_options& options)
{
    std::vector<file_identity> files;
    for (const auto* path : {&options.cacertfile, &options.certfile, &options.keyfile})
        if (*path)
            files.push_back(identify_file(**path));
    return files;
}

} // namespace

result<std::shared_ptr<const context>> context_cache::get(role side, const context_options& options)
{
    // Identities first: a file that changes after this is read again next time.
    auto files = identify_files(options);
    {
        const std::lock_guard lock{mutex_};
        if (auto known = find(side, options, files))
            return known;
    }
    auto made = context::make(side, options); // unlocked: reading and parsing may take a while
    if (!made)
        return made;
    const std::lock_guard lock{mutex_};
    if (auto known = find(side, options, files))
        return known; // another thread was faster, and one shared context is the point
    entries_.push_front({side, options, std::move(files), *made});
    if (entries_.size() > capacity)
        entries_.pop_back();
    return made;
}

void context_cache::clear()
{
    const std::lock_guard lock{mutex_};
    entries_.clear();
    forget_system_trust();
}

std::size_t context_cache::size() const
{
    const std::lock_guard lock{mutex_};
    return entries_.size();
}

std::shared_ptr<const context> context_cache::find(role side, const context_options& options,
                                                   const std::vector<file_identity>& files)
{
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const entry& one) {
        return one.side == side && one.files == files && one.options == options;
    });
    if (at == entries_.end())
        return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return at->made;
}

} // namespace etls::tls
