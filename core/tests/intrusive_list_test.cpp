// SPDX-License-Identifier: BSD-2-Clause
#include "core/intrusive_list.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <string>

namespace durable {

namespace {

struct Item {
    int number = 0;
    ListLink link;
};

class IntrusiveListTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(IntrusiveListTest);
    CPPUNIT_TEST(records_come_out_in_order);
    CPPUNIT_TEST(a_record_leaves_from_anywhere);
    CPPUNIT_TEST(unlinking_twice_is_harmless);
    CPPUNIT_TEST(a_list_is_used_again_after_it_was_empty);
    CPPUNIT_TEST(repair_derives_the_backward_links);
    CPPUNIT_TEST(a_cleared_list_is_empty);
    CPPUNIT_TEST_SUITE_END();

public:
    void setUp() override {
        for (int i = 0; i < 3; ++i) items[i].number = i;
    }

    void records_come_out_in_order() {
        CPPUNIT_ASSERT(list.empty());
        CPPUNIT_ASSERT(list.front() == nullptr);
        CPPUNIT_ASSERT(list.pop_front() == nullptr);
        fill();
        CPPUNIT_ASSERT(!list.empty());
        CPPUNIT_ASSERT_EQUAL(std::string("012"), numbers());
        CPPUNIT_ASSERT(list.pop_front() == &items[0]);
        CPPUNIT_ASSERT(!list.contains(items[0]));
        CPPUNIT_ASSERT(list.contains(items[1]));
        CPPUNIT_ASSERT_EQUAL(std::string("12"), numbers());
    }

    void a_record_leaves_from_anywhere() {
        for (int leaving = 0; leaving < 3; ++leaving) {
            fill();
            list.remove(items[leaving]);
            std::string rest = "012";
            CPPUNIT_ASSERT_EQUAL(rest.erase(static_cast<std::size_t>(leaving), 1), numbers());
            while (list.pop_front() != nullptr) {}
        }
    }

    void unlinking_twice_is_harmless() {
        fill();
        items[1].link.unlink();
        items[1].link.unlink();
        CPPUNIT_ASSERT_EQUAL(std::string("02"), numbers());
    }

    void a_list_is_used_again_after_it_was_empty() {
        fill();
        while (list.pop_front() != nullptr) {}
        CPPUNIT_ASSERT(list.empty());
        fill();
        CPPUNIT_ASSERT_EQUAL(std::string("012"), numbers());
    }

    void repair_derives_the_backward_links() {
        list.repair();
        fill();
        for (Item& item : items) item.link.prev = nullptr;
        list.repair();
        list.remove(items[1]);
        CPPUNIT_ASSERT_EQUAL(std::string("02"), numbers());
        list.push_back(items[1]);
        CPPUNIT_ASSERT_EQUAL(std::string("021"), numbers());
    }

    void a_cleared_list_is_empty() {
        fill();
        list.clear();
        CPPUNIT_ASSERT(list.empty());
        for (Item& item : items) item.link = ListLink();
        fill();
        CPPUNIT_ASSERT_EQUAL(std::string("012"), numbers());
    }

private:
    void fill() {
        for (Item& item : items) list.push_back(item);
    }
    std::string numbers() {
        std::string out;
        for (Item* item = list.front(); item != nullptr; item = list.next(*item)) out += std::to_string(item->number);
        return out;
    }

    Item items[3];
    IntrusiveList<Item, &Item::link> list;
};

CPPUNIT_TEST_SUITE_REGISTRATION(IntrusiveListTest);

}  // namespace

}  // namespace durable
