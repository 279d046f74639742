// SPDX-License-Identifier: BSD-2-Clause
// A doubly linked list whose links are members of its records, for use in the zone.
// A worker may be killed between any two stores, so the forward chain is whole at every one of
// them; `repair` derives the backward links from it again.
#pragma once

#include "core/shared_memory.h"

namespace durable {

struct ListLink {
    ListLink* next = nullptr;  // nullptr: in no list
    ListLink* prev = nullptr;

    bool is_linked() const noexcept { return next != nullptr; }

    void unlink() noexcept {
        if (next == nullptr) return;
        prev->next = next;
        keep_store_order();
        next->prev = prev;
        next = nullptr;
        prev = nullptr;
        keep_store_order();
    }
};

// The list's anchor is part of its owner and must not move once a record is linked.
template <class Record, ListLink Record::*Member>
class IntrusiveList {
public:
    bool empty() const noexcept { return anchor_.next == nullptr || anchor_.next == &anchor_; }

    void push_back(Record& record) noexcept {
        if (anchor_.next == nullptr) anchor_.prev = anchor_.next = &anchor_;
        ListLink& link = record.*Member;
        link.prev = anchor_.prev;
        link.next = &anchor_;
        keep_store_order();
        anchor_.prev->next = &link;
        keep_store_order();
        anchor_.prev = &link;
    }

    Record* front() const noexcept { return empty() ? nullptr : owner(anchor_.next); }

    // The record behind `record`, nullptr at the end.
    Record* next(const Record& record) const noexcept {
        ListLink* link = (record.*Member).next;
        return link == &anchor_ ? nullptr : owner(link);
    }

    Record* pop_front() noexcept {
        Record* record = front();
        if (record != nullptr) (record->*Member).unlink();
        return record;
    }

    static void remove(Record& record) noexcept { (record.*Member).unlink(); }
    static bool contains(const Record& record) noexcept { return (record.*Member).is_linked(); }

    // Makes the backward links agree with the forward chain again, after a worker died in between.
    void repair() noexcept {
        if (anchor_.next == nullptr) return;
        ListLink* before = &anchor_;
        for (ListLink* link = anchor_.next; link != &anchor_; link = link->next) {
            link->prev = before;
            before = link;
        }
        anchor_.prev = before;
    }

    // Makes it empty without a look at its records, whose links are to be reset.
    void clear() noexcept { anchor_ = ListLink(); }

private:
    static Record* owner(ListLink* link) noexcept {
        alignas(Record) static constexpr char probe[sizeof(Record)] = {};
        const auto* sample = reinterpret_cast<const Record*>(probe);
        const auto offset = reinterpret_cast<const char*>(&(sample->*Member)) - probe;
        return reinterpret_cast<Record*>(reinterpret_cast<char*>(link) - offset);
    }

    ListLink anchor_;
};

}  // namespace durable
