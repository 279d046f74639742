// SPDX-License-Identifier: BSD-2-Clause
// Everything that lives in a zone, at one glance: plain data that all workers share. Each field is
// read and written under the zone's lock alone. What acts on a record stands in the header of the
// same name (channel.h, event.h, line.h, mailbox.h, object.h, zone.h).
// A pointer here points into the same zone. Whatever a worker owns names its slot, so that
// `forget_worker` finds it after the worker's death.
// A worker may die between any two stores. So every record is in one list from right after it was
// made until right before it is freed ("its list" below; an object's is its index), and all other
// links and counts follow from these lists and from the pointers of the records in them: that is
// what zone_repair.cpp does.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/hash_index.h"
#include "core/intrusive_list.h"
#include "core/text_chain.h"

namespace durable {

struct ChannelRecord;
struct EventRecord;
struct LineEntryRecord;
struct ObjectRecord;
struct StationRecord;

// A worker process: its slot, and which claim of that slot it is (0 = none).
struct WorkerRef {
    std::uint32_t generation = 0;
    std::uint16_t slot = 0;

    bool operator==(const WorkerRef& other) const noexcept {
        return slot == other.slot && generation == other.generation;
    }
    bool operator!=(const WorkerRef& other) const noexcept { return !(*this == other); }
};

// An event's token as bytes; event_token.h writes it in hex.
struct EventToken {
    std::uint8_t random[16] = {};  // from the kernel's random source
    WorkerRef worker;              // where the request or the section runs
    std::uint32_t zone = 0;        // which zone: a hash of its name

    bool operator==(const EventToken& other) const noexcept {
        return std::memcmp(random, other.random, sizeof random) == 0 && worker == other.worker &&
               zone == other.zone;
    }
};

// ---- channels --------------------------------------------------------------------------------

// A place in a channel's log. The last one is always empty: readers that have caught up stand
// there, and the next publish fills it, so that it reaches all of them in one step.
struct MessageRecord {
    MessageRecord* next = nullptr;
    MessageRecord* prev = nullptr;
    struct CursorRecord* readers = nullptr;  // who will read this one next
    TextBlock* text = nullptr;               // the event type, then the text
    std::uint64_t bytes_before = 0;          // text bytes appended to the channel before this one
    std::uint64_t number = 0;                // of the object's messages, counting up by one; 0 = empty place
    std::uint64_t published_ms = 0;          // unix time
    std::uint32_t size = 0;                  // of the text
    std::uint16_t event_size = 0;
    bool has_id = false;                     // published with history (H-2)
    bool is_kept = false;                    // history (H-1): stays although nobody will read it; has_id too
};

enum class CursorState : std::uint8_t {
    reading,
    dropped,    // for backlog (C-27): what was queued is gone
    cancelled,  // C-13
};

// A position in a channel's log. `weight` subscriptions share it.
struct CursorRecord {
    CursorRecord* reader_next = nullptr;  // among the readers of `at`
    CursorRecord** reader_link = nullptr;
    MessageRecord* at = nullptr;       // nullptr once dropped or cancelled
    ChannelRecord* channel = nullptr;  // nullptr once cancelled
    StationRecord* station = nullptr;  // whom a message wakes; nullptr: nobody is waiting
    ListLink owner_link;               // its list: its worker's slot or its event
    ListLink station_link;
    std::uint64_t skip_until = 0;  // of the messages up to here only those with an id (H-3)
    std::uint32_t weight = 1;
    CursorState state = CursorState::reading;
};

// A worker's interest in a channel: what a publish has to wake. At most one for each worker.
struct StationRecord {
    ListLink channel_link;
    ListLink slot_link;   // its list
    ListLink ready_link;   // linked while there is something to look at
    ChannelRecord* channel = nullptr;
    IntrusiveList<CursorRecord, &CursorRecord::station_link> cursors;  // it goes with the last one
    std::uint16_t slot = 0;
};

struct ChannelRecord {
    ChannelRecord* hash_next = nullptr;
    ListLink object_link;     // its list
    ListLink keeping_link;    // in the root, while it keeps messages
    ListLink untrimmed_link;  // more to free than one call may
    ObjectRecord* object = nullptr;
    MessageRecord* first = nullptr;
    MessageRecord* unread_from = nullptr;  // no reader stands before it, and only kept messages do
    MessageRecord* kept_from = nullptr;    // no kept message stands before it
    MessageRecord* tail = nullptr;         // the empty place
    IntrusiveList<StationRecord, &StationRecord::channel_link> stations;
    TextChain close_reason;
    std::uint64_t bytes_appended = 0;
    std::uint64_t keep_ms = 0;     // history: messages older than this go; 0 = no limit
    std::uint64_t forgotten = 0;   // the highest number that was kept and is no more (H-4)
    std::uint32_t hash = 0;
    std::uint32_t live = 0;        // subscriptions (C-29)
    std::uint32_t cursors = 0;     // records that point here
    std::uint32_t kept = 0;        // messages kept for history
    bool is_closed = false;
    bool is_listed = true;         // found by its name; a closed or ended generation is not
    std::uint8_t name_size = 0;
    char name_bytes[64];

    std::string_view name() const noexcept { return {name_bytes, name_size}; }
};

// ---- the line --------------------------------------------------------------------------------

enum class LineKind : std::uint8_t {
    section,  // runs alone until it leaves
    held,     // an event or a call that only waits for its turn
};

enum class LineState : std::uint8_t {
    waiting,
    granted,
    withdrawn,  // a section whose caller's event ended while it waited; its worker takes it as if granted
};

struct LineEntryRecord {
    ListLink line_link;     // in the object's line; a running section is not in it
    ListLink slot_link;     // its list, in its worker's slot
    ListLink granted_link;  // in its worker's slot, until the worker has looked
    ListLink caller_link;   // in its caller's event, while that waits for it
    ObjectRecord* object = nullptr;
    std::uint64_t ticket = 0;  // the owning worker's name for it
    EventToken token;          // of a running section's event
    EventRecord* event = nullptr;   // that names it as its section
    EventRecord* caller = nullptr;  // the event that waits for this section's turn
    WorkerRef owner;
    LineKind kind = LineKind::held;
    LineState state = LineState::waiting;
    bool is_told = false;  // its worker knows that it is granted
};

// ---- events ----------------------------------------------------------------------------------

enum class EventKind : std::uint8_t { fetch, durable_block };

// A host call's subscription: a cursor that an event owns.
struct SubscriptionRecord {
    CursorRecord cursor;  // first: a cursor of an event is one of these
    SubscriptionRecord* hash_next = nullptr;
    std::uint64_t handle = 0;
    EventRecord* event = nullptr;  // nullptr while the record is being made or freed
    std::uint32_t hash = 0;
};

// A running event that has made a host call needing the zone; those that never do have none.
struct EventRecord {
    EventRecord* hash_next = nullptr;
    ListLink slot_link;  // its list
    ListLink object_link;
    ObjectRecord* object = nullptr;
    LineEntryRecord* section = nullptr;  // the section this event is part of, nullptr if none
    IntrusiveList<CursorRecord, &CursorRecord::owner_link> subscriptions;
    IntrusiveList<LineEntryRecord, &LineEntryRecord::caller_link> queued;  // sections that it waits for
    std::uint64_t queued_since_ms = 0;     // of the workers' common clock, while there is one
    std::uint64_t queued_ms = 0;           // time spent so, not yet added to its time limit
    EventToken token;
    TextChain section_handler;             // where its sections enter the application; may be empty
    std::uint32_t section_timeout_ms = 0;  // of them
    std::uint32_t line_queue = 0;          // how many may wait in its object's line
    std::uint32_t hash = 0;
    EventKind kind = EventKind::fetch;
};

// ---- objects ---------------------------------------------------------------------------------

// Exists while anything of it does. Its key follows the record.
struct ObjectRecord {
    ObjectRecord* hash_next = nullptr;
    IntrusiveList<ChannelRecord, &ChannelRecord::object_link> channels;  // all that are left of it
    IntrusiveList<EventRecord, &EventRecord::object_link> events;
    IntrusiveList<LineEntryRecord, &LineEntryRecord::line_link> line;
    LineEntryRecord* running = nullptr;
    std::uint64_t last_number = 0;  // of its messages
    std::uint64_t epoch = 0;        // of its history (H-2); 0 = none kept yet
    std::uint64_t forgotten = 0;    // as a channel's, of those that are gone
    std::uint32_t hash = 0;
    std::uint32_t channel_count = 0;  // listed channels
    std::uint32_t references = 0;     // channels, events and line entries that point here
    std::uint32_t line_length = 0;
    std::uint16_t key_size = 0;

    char* key_bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
    std::string_view key() const noexcept { return {reinterpret_cast<const char*>(this + 1), key_size}; }
};

// ---- between workers -------------------------------------------------------------------------

enum class CommandKind : std::uint8_t {
    answer,          // to a command; `call` says to which
    bind_event,      // make the event's record, since a host call needs it
    stream_start,
    stream_write,
    stream_state,
    stream_end,
    stream_abort,
    section_read,
    section_result,
};

struct CommandRecord {
    ListLink mailbox_link;  // its list: the receiver's mailbox or a worker's drafts
    TextChain text;
    EventToken token;
    std::uint64_t call = 0;    // the sender's name for it
    std::uint64_t handle = 0;  // of the stream meant
    WorkerRef sender;
    std::int32_t result = 0;   // of an answer
    CommandKind kind = CommandKind::answer;
};

// A worker process that uses the zone.
struct WorkerSlotRecord {
    IntrusiveList<StationRecord, &StationRecord::slot_link> stations;
    IntrusiveList<StationRecord, &StationRecord::ready_link> ready;
    IntrusiveList<CursorRecord, &CursorRecord::owner_link> cursors;
    IntrusiveList<EventRecord, &EventRecord::slot_link> events;
    IntrusiveList<LineEntryRecord, &LineEntryRecord::slot_link> line_entries;
    IntrusiveList<LineEntryRecord, &LineEntryRecord::granted_link> granted;
    IntrusiveList<CommandRecord, &CommandRecord::mailbox_link> mailbox;
    IntrusiveList<CommandRecord, &CommandRecord::mailbox_link> drafts;  // long ones, being written or read
    std::uint64_t start_time = 0;  // of the process, field 22 of /proc/PID/stat: a pid is reused
    std::uint32_t pid = 0;         // 0 = free
    std::uint32_t generation = 0;
    std::uint32_t mailbox_depth = 0;
    bool is_woken = false;         // a wake-up is under way
    std::uint8_t address_size = 0;
    char address[14] = {};         // the wake-up socket's abstract name, as in sun_path
};

// ---- the events API --------------------------------------------------------------------------

// What an account may do so often (E-24).
enum class CallBudget : std::uint8_t { list, change, fetch };

// An account's accepted calls of one kind; its RateWindowRecord follows the record. Its list is its index.
struct CallBudgetRecord {
    CallBudgetRecord* hash_next = nullptr;
    std::uint32_t hash = 0;
    CallBudget kind = CallBudget::list;
    char account[32] = {};  // a digest of the account, so that the whole fits into 1024 bytes
};

inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::uint16_t kMaxWorkers = 256;

struct ZoneRoot {
    std::uint32_t layout_version = 0;
    bool must_wake_all = false;  // wake-ups may have been lost with a worker
    std::uint32_t held_by = 0;   // pid of whoever holds the lock: not 0 when the next one comes means it died
    HashIndex<ObjectRecord> objects;
    HashIndex<ChannelRecord> channels;
    HashIndex<SubscriptionRecord> subscriptions;
    HashIndex<EventRecord> events;
    IntrusiveList<ChannelRecord, &ChannelRecord::keeping_link> keeping;
    HashIndex<CallBudgetRecord> budgets;
    IntrusiveList<ChannelRecord, &ChannelRecord::untrimmed_link> untrimmed;
    WorkerSlotRecord* slots[kMaxWorkers] = {};  // made at the first claim, then reused
    std::uint64_t last_handle = 0;
    std::uint32_t slot_count = 0;
    std::uint32_t next_budget_bucket = 0;  // to be looked at for idle ones
};

}  // namespace durable
