// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/reader_group.h"

#include "core/sse_frame.h"
#include "ngx_module/log.h"
#include "ngx_module/publishing.h"

namespace durable {

namespace {

// What one hold of the lock reads at most.
constexpr std::size_t kMessagesAtOnce = 64;
constexpr std::size_t kBytesAtOnce = 128 * 1024;
// Rounds of reading before other events get their turn.
constexpr int kRoundsAtOnce = 8;

SubscribedStream& stream_of(ngx_queue_t* link, std::size_t offset) noexcept {
    return *reinterpret_cast<SubscribedStream*>(reinterpret_cast<char*>(link) - offset);
}

std::string message_id(const MessageId& id) {
    std::string text;
    if (id.number != 0) append_message_id(text, id);
    return text;
}

}  // namespace

// ---- members ---------------------------------------------------------------------------------

ReaderGroup::ReaderGroup(ReaderGroups& groups, std::string key, Framing framing, ngx_uint_t format)
    : groups_(groups), key_(std::move(key)), format_(format), framing_(framing) {
    ngx_queue_init(&members_);
    link_.group = this;
    ngx_queue_insert_tail(&groups_.groups_, &link_.queue);
}

ReaderGroup::~ReaderGroup() {
    unshare();
    ngx_queue_remove(&link_.queue);
    for (auto& reader : readers_) groups_.zone_.ignore(*reader);
    if (!groups_.zone_.is_claimed()) return;  // the worker has left the zone with all that it had there
    ZoneAccess access(groups_.zone_);
    for (auto& reader : readers_) {
        if (reader->cursor != nullptr) destroy_cursor(access, reader->cursor);
    }
}

SubscribedStream* ReaderGroup::first_member() const noexcept {
    if (member_count_ == 0) return nullptr;
    return &stream_of(ngx_queue_head(&members_), offsetof(SubscribedStream, group_link_));
}

void ReaderGroup::add(SubscribedStream& stream) noexcept {
    stream.group_ = this;
    ngx_queue_insert_tail(&members_, &stream.group_link_);
    ++member_count_;
}

// The last member takes the group along, unless it is just at work.
void ReaderGroup::remove(SubscribedStream& stream) noexcept {
    stream.group_ = nullptr;
    ngx_queue_remove(&stream.group_link_);
    --member_count_;
    if (member_count_ == 0 && !is_processing_) {
        delete this;
        return;
    }
    if (member_count_ == 0) return;
    ZoneAccess access(groups_.zone_);
    for (auto& reader : readers_) remove_subscription(access, *reader->cursor);
}

bool ReaderGroup::has_blocked_member() const noexcept { return member_count_ == 1 && first_member()->is_blocked(); }

void ReaderGroup::unshare() noexcept {
    if (!is_shared_) return;
    is_shared_ = false;
    groups_.shared_.erase(key_);
}

// Needs the lock.
bool ReaderGroup::has_caught_up() const noexcept {
    for (const auto& reader : readers_) {
        if (!durable::has_caught_up(*reader->cursor) || reader->cursor->channel->is_closed) return false;
    }
    return !readers_.empty();
}

void ReaderGroup::listen() {
    for (auto& reader : readers_) groups_.zone_.listen(*reader, reader->cursor->station, is_shared_);
}

// A group of the same channels, still without positions.
std::unique_ptr<ReaderGroup> ReaderGroup::like_this() const {
    auto group = std::make_unique<ReaderGroup>(groups_, key_, framing_, format_);
    for (const auto& reader : readers_) group->add_reader(reader->channel);
    return group;
}

void ReaderGroup::add_reader(std::string_view channel) {
    readers_.push_back(std::make_unique<Reader>());
    readers_.back()->group = this;
    readers_.back()->channel = channel;
}

void ReaderGroup::on_member_blocked(SubscribedStream& stream) noexcept {
    unshare();
    if (member_count_ == 1) return;
    guarded(ngx_cycle->log, "setting a slow stream apart", [&] {
        std::vector<Slow> slow(1);
        slow[0].stream = &stream;
        slow[0].group = like_this();
        {
            ZoneAccess access(groups_.zone_);
            split(access, slow[0]);
        }
        settle_slow(slow);
        return NGX_OK;
    });
    groups_.try_share(this);
}

// ---- reading and sending ---------------------------------------------------------------------

void ReaderGroup::process() noexcept {
    if (is_processing_) return;
    if (has_blocked_member()) {
        bool is_dropped = false;
        {
            ZoneAccess access(groups_.zone_);
            for (auto& reader : readers_) is_dropped |= reader->cursor->state == CursorState::dropped;
        }
        if (is_dropped) end_members(true);
        return;
    }
    is_processing_ = true;
    guarded(ngx_cycle->log, "sending messages", [this] {
        int round = 0;
        while (process_once()) {
            if (++round < kRoundsAtOnce) continue;
            ZoneAccess access(groups_.zone_);
            for (auto& reader : readers_) notify_owner(access, *reader->cursor);
            break;
        }
        return NGX_OK;
    });
    groups_.close_failed();
    is_processing_ = false;
    if (member_count_ == 0) {
        delete this;
    } else if (!is_shared_) {
        groups_.try_share(this);
    }
}

// The reader with the oldest message not yet looked at; nullptr when there is none. The object
// numbers its messages, so that a stream over several channels has them in the order of publishing.
ReaderGroup::Reader* ReaderGroup::next_reader() const noexcept {
    Reader* oldest = nullptr;
    for (const auto& reader : readers_) {
        if (reader->peek == nullptr || reader->peek->number == 0) continue;
        if (oldest == nullptr || reader->peek->number < oldest->peek->number) oldest = reader.get();
    }
    return oldest;
}

void ReaderGroup::read(ZoneLock& lock, Read& read) {
    std::string& texts = groups_.scratch_;
    texts.clear();
    for (auto& reader : readers_) {
        read.is_dropped |= reader->cursor->state == CursorState::dropped;
        reader->peek = reader->cursor->at;
    }
    if (read.is_dropped) return;
    while (read.messages.size() < kMessagesAtOnce && texts.size() < kBytesAtOnce) {
        Reader* reader = next_reader();
        if (reader == nullptr) break;
        const MessageRecord& message = *reader->peek;
        const TextChain text{message.text, message.size + message.event_size};
        text.append_to(texts);
        read.messages.push_back({reader, message.has_id ? reader->cursor->channel->object->epoch : 0, message.number,
                                 message.event_size, message.size});
        reader->peek = following_message(*reader->cursor, message);
    }
    if (read.messages.empty()) take_drained(lock, read);
}

// Channels that are closed and read to their end.
void ReaderGroup::take_drained(ZoneLock& lock, Read& read) {
    for (auto reader = readers_.begin(); reader != readers_.end();) {
        if (!is_drained(*(*reader)->cursor)) {
            ++reader;
            continue;
        }
        read.close_reasons.emplace_back();
        (*reader)->cursor->channel->close_reason.append_to(read.close_reasons.back());
        destroy_cursor(lock, (*reader)->cursor);
        (*reader)->cursor = nullptr;
        groups_.zone_.ignore(**reader);
        reader = readers_.erase(reader);
    }
}

void ReaderGroup::render(const Read& read, FrameBatch& batch) const {
    batch.clear();
    std::string_view texts = groups_.scratch_;
    for (const Read::Message& message : read.messages) {
        const std::size_t from = batch.bytes.size();
        const std::string id = message.epoch == 0 ? std::string() : message_id({message.epoch, message.number});
        const std::string_view event = texts.substr(0, message.event_size);
        const std::string_view text = texts.substr(message.event_size, message.size);
        texts.remove_prefix(message.event_size + message.size);
        if (format_ == kFormatJson) {
            append_json_message_frame(batch.bytes, id, message.reader->channel, event, text);
        } else {
            append_message_frame(batch.bytes, id, event, text);
        }
        batch.end_frame(from, framing_);
    }
    for (const std::string& reason : read.close_reasons) {
        const std::size_t from = batch.bytes.size();
        append_close_frame(batch.bytes, reason);
        batch.end_frame(from, framing_);
    }
}

// True when there may be more.
bool ReaderGroup::process_once() {
    Read read;
    {
        ZoneAccess access(groups_.zone_);
        this->read(access, read);
    }
    if (read.is_dropped) {
        end_members(true);
        return false;
    }
    if (read.messages.empty() && read.close_reasons.empty()) return false;
    if (!read.close_reasons.empty()) unshare();
    render(read, groups_.batch_);
    std::vector<Slow> slow;
    send_to_members(groups_.batch_, slow);
    bool has_more;
    {
        ZoneAccess access(groups_.zone_);
        has_more = advance(access, read, slow);
    }
    settle_slow(slow);
    if (readers_.empty()) {
        end_members(false);
        return false;
    }
    return has_more && member_count_ != 0 && !has_blocked_member();
}

void ReaderGroup::send_to_members(const FrameBatch& batch, std::vector<Slow>& slow) {
    for (ngx_queue_t *link = ngx_queue_head(&members_), *next; link != ngx_queue_sentinel(&members_); link = next) {
        next = ngx_queue_next(link);
        SubscribedStream& stream = stream_of(link, offsetof(SubscribedStream, group_link_));
        if (stream.has_failed()) continue;
        const std::size_t accepted = stream.send(batch);
        if (stream.has_failed()) {
            groups_.close_later(stream);
        } else if (stream.is_blocked()) {
            slow.emplace_back();
            slow.back().stream = &stream;
            slow.back().accepted = accepted;
        }
    }
    if (slow.empty()) return;
    if (member_count_ == 1) {
        unshare();
        return;
    }
    for (Slow& one : slow) one.group = like_this();
}

// Moves on past what was sent; a slow member stays behind with a position of its own. True when
// there is more to read.
bool ReaderGroup::advance(ZoneLock& lock, const Read& read, std::vector<Slow>& slow) noexcept {
    const bool is_alone = member_count_ == 1;
    std::size_t sent = 0;
    for (;; ++sent) {
        for (Slow& one : slow) {
            if (one.accepted != sent) continue;
            if (is_alone) return false;
            split(lock, one);
        }
        if (sent == read.messages.size()) break;
        CursorRecord& cursor = *read.messages[sent].reader->cursor;
        if (cursor.state == CursorState::reading) move_on(lock, cursor);
    }
    // What was accepted of close frames moves no position.
    for (Slow& one : slow) {
        if (one.accepted > sent && !is_alone) split(lock, one);
    }
    for (auto& reader : readers_) {
        const CursorRecord& cursor = *reader->cursor;
        if (cursor.state != CursorState::reading || next_message(cursor) != nullptr || is_drained(cursor)) return true;
    }
    return false;
}

void ReaderGroup::split(ZoneLock& lock, Slow& slow) noexcept {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
        CursorRecord* cursor = slow.is_lost ? nullptr : split_cursor(lock, *readers_[i]->cursor, 1);
        slow.group->readers_[i]->cursor = cursor;
        if (cursor == nullptr || !await_messages(lock, *cursor)) {
            slow.is_lost = true;
            if (cursor == nullptr) remove_subscription(lock, *readers_[i]->cursor);
        }
    }
}

void ReaderGroup::settle_slow(std::vector<Slow>& slow) {
    for (Slow& one : slow) {
        if (one.group == nullptr) continue;
        SubscribedStream& stream = *one.stream;
        ngx_queue_remove(&stream.group_link_);
        --member_count_;
        stream.group_ = nullptr;
        if (one.is_lost || one.group->readers_.empty()) {
            stream.finish(one.is_lost);
            continue;
        }
        one.group->listen();
        one.group.release()->add(stream);
    }
}

void ReaderGroup::end_members(bool were_dropped) noexcept {
    const bool was_processing = is_processing_;
    is_processing_ = true;
    while (SubscribedStream* stream = first_member()) {
        if (stream->has_failed()) {
            stream->close();
        } else {
            stream->finish(were_dropped);
        }
    }
    is_processing_ = was_processing;
    if (!is_processing_) delete this;
}

// ---- all groups ------------------------------------------------------------------------------

ReaderGroup* ReaderGroups::first_group() noexcept {
    auto* link = ngx_queue_data(ngx_queue_head(&groups_), ReaderGroup::Link, queue);
    return link->group;
}

ReaderGroups::~ReaderGroups() {
    while (!ngx_queue_empty(&groups_)) delete first_group();
}

ErrorCode ReaderGroups::join(SubscribedStream& stream, std::string_view object_key,
                             const std::vector<std::string>& channels, ngx_uint_t format,
                             const StreamOrigin& origin, std::string& first) {
    std::string key = std::to_string(object_key.size());
    key.append(1, format == kFormatJson ? 'j' : 't').append(1, stream.framing() == Framing::chunked ? 'c' : 'r');
    key.append(object_key);
    for (const std::string& channel : channels) key.append(1, ' ').append(channel);

    const auto shared = origin.is_newest() ? shared_.find(key) : shared_.end();
    if (shared != shared_.end()) {
        bool is_open = false;
        const ErrorCode error = join_shared(*shared->second, is_open);
        if (error != ErrorCode::ok) return error;
        if (is_open) {
            shared->second->add(stream);
            return error;
        }
    }
    auto group = std::make_unique<ReaderGroup>(*this, std::move(key), stream.framing(), format);
    for (const std::string& channel : channels) group->add_reader(channel);
    Resumption resumption;
    ErrorCode error;
    {
        ZoneAccess access(zone_);
        do {
            error = open(access, *group, object_key, channels, origin, resumption);
        } while (error == ErrorCode::no_memory && shed_messages(access));
    }
    if (error != ErrorCode::ok) return error;
    if (resumption.is_gap) append_gap_frame(first, *origin.asked, message_id(resumption.next));
    group->listen();
    group->add(stream);
    try_share(group.release());
    return ErrorCode::ok;
}

// One more member for a group that has caught up; `is_open` says whether this one has.
ErrorCode ReaderGroups::join_shared(ReaderGroup& group, bool& is_open) noexcept {
    ZoneAccess access(zone_);
    is_open = group.has_caught_up() && !group.is_processing_;
    for (std::size_t i = 0; is_open && i < group.readers_.size(); ++i) {
        if (add_subscription(access, *group.readers_[i]->cursor) == ChannelOutcome::ok) continue;
        while (i-- > 0) remove_subscription(access, *group.readers_[i]->cursor);
        return ErrorCode::subscription_limit;
    }
    return ErrorCode::ok;
}

// Where the client goes on and taking the positions is one step (H-3). On failure nothing is held.
ErrorCode ReaderGroups::open(ZoneLock& lock, ReaderGroup& group, std::string_view object_key,
                             const std::vector<std::string>& channels, const StreamOrigin& origin,
                             Resumption& resumption) {
    if (origin.asked) {
        resumption = resume_after(lock, object_key, channels, *origin.asked, unix_ms());
    } else if (origin.from_oldest) {
        resumption.start.kind = StartAt::oldest;
    }
    ChannelOutcome outcome = ChannelOutcome::ok;
    for (auto& reader : group.readers_) {
        reader->cursor = create_cursor(lock);
        if (reader->cursor == nullptr) {
            outcome = ChannelOutcome::no_memory;
        } else {
            outcome = open_cursor(lock, *reader->cursor, object_key, reader->channel, resumption.start);
        }
        if (outcome == ChannelOutcome::ok && !await_messages(lock, *reader->cursor)) outcome = ChannelOutcome::no_memory;
        if (outcome != ChannelOutcome::ok) break;
    }
    if (outcome == ChannelOutcome::ok) return ErrorCode::ok;
    for (auto& reader : group.readers_) {
        if (reader->cursor != nullptr) destroy_cursor(lock, reader->cursor);
        reader->cursor = nullptr;
    }
    return error_of(outcome);
}

void ReaderGroups::try_share(ReaderGroup* group) noexcept {
    if (group->is_shared_ || group->readers_.empty() || group->has_blocked_member()) return;
    const auto found = shared_.find(group->key_);
    ReaderGroup* shared = found == shared_.end() ? nullptr : found->second;
    bool is_stale = false;  // its channels have ended; the names are others' now
    bool is_joined = false;
    {
        ZoneAccess access(zone_);
        for (auto& reader : group->readers_) {
            if (!reader->cursor->channel->is_listed || reader->cursor->state != CursorState::reading) return;
        }
        if (shared != nullptr) {
            for (std::size_t i = 0; i < shared->readers_.size(); ++i) {
                is_stale |= shared->readers_[i]->cursor->channel != group->readers_[i]->cursor->channel;
            }
            is_joined = !is_stale && !shared->is_processing_ && shared->has_caught_up() && group->has_caught_up();
        }
        for (std::size_t i = 0; is_joined && i < group->readers_.size(); ++i) {
            join_cursor(access, *shared->readers_[i]->cursor, *group->readers_[i]->cursor);
            group->readers_[i]->cursor = nullptr;
        }
    }
    if (is_joined) {
        while (SubscribedStream* stream = group->first_member()) {
            ngx_queue_remove(&stream->group_link_);
            --group->member_count_;
            shared->add(*stream);
        }
        delete group;
        return;
    }
    if (shared != nullptr && !is_stale) return;
    guarded(ngx_cycle->log, "sharing a group", [&] {
        shared_[group->key_] = group;
        if (shared != nullptr) shared->is_shared_ = false;
        group->is_shared_ = true;
        group->listen();  // before those that may join it
        return NGX_OK;
    });
}

void ReaderGroups::close_failed() noexcept {
    while (!to_close_.empty()) {
        SubscribedStream* stream = to_close_.back();
        to_close_.pop_back();
        stream->close();
    }
}

void ReaderGroups::end_all() noexcept {
    while (!ngx_queue_empty(&groups_)) first_group()->end_members(false);
}

}  // namespace durable
