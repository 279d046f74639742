// SPDX-License-Identifier: BSD-2-Clause
#include "core/text_chain.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <string>
#include <vector>

#include "core/tests/heap_memory.h"

namespace durable {

namespace {

constexpr std::uint32_t kBlock = TextChain::kBlockBytes;

class TextChainTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(TextChainTest);
    CPPUNIT_TEST(a_text_comes_back_byte_for_byte);
    CPPUNIT_TEST(head_and_tail_are_one_text);
    CPPUNIT_TEST(it_is_read_from_any_byte);
    CPPUNIT_TEST(a_block_is_at_most_a_page);
    CPPUNIT_TEST(a_short_text_is_seen_without_a_copy);
    CPPUNIT_TEST(assigning_survives_each_failed_allocation);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_text_comes_back_byte_for_byte() {  // C-27a
        for (const std::size_t size : sizes()) {
            const std::string text = pattern(size);
            SharedLock lock(memory);
            TextChain chain;
            CPPUNIT_ASSERT(chain.assign(lock, text));
            CPPUNIT_ASSERT_EQUAL(size, static_cast<std::size_t>(chain.size));
            CPPUNIT_ASSERT_EQUAL((size + kBlock - 1) / kBlock, memory.live_blocks());
            std::string out = "before";
            chain.append_to(out);
            CPPUNIT_ASSERT_EQUAL("before" + text, out);
            chain.release(lock);
            CPPUNIT_ASSERT_EQUAL(std::size_t{0}, memory.live_blocks());
            CPPUNIT_ASSERT(chain.first == nullptr && chain.size == 0);
        }
    }

    void head_and_tail_are_one_text() {
        for (const std::size_t head : sizes()) {
            for (const std::size_t tail : sizes()) {
                const std::string text = pattern(head + tail);
                SharedLock lock(memory);
                TextChain chain;
                CPPUNIT_ASSERT(chain.assign(lock, text.substr(0, head), text.substr(head)));
                std::string out;
                chain.append_to(out);
                CPPUNIT_ASSERT_EQUAL(text, out);
                chain.release(lock);
            }
        }
    }

    void it_is_read_from_any_byte() {
        const std::string text = pattern(2 * kBlock + 10);
        SharedLock lock(memory);
        TextChain chain;
        CPPUNIT_ASSERT(chain.assign(lock, text));
        for (const std::size_t from : sizes()) {
            if (from > text.size()) continue;
            std::string out;
            chain.append_to(out, static_cast<std::uint32_t>(from));
            CPPUNIT_ASSERT_EQUAL(text.substr(from), out);
        }
        chain.release(lock);
    }

    void a_block_is_at_most_a_page() { CPPUNIT_ASSERT_EQUAL(std::size_t{4096}, sizeof(TextBlock) + kBlock); }

    void a_short_text_is_seen_without_a_copy() {
        SharedLock lock(memory);
        TextChain chain;
        CPPUNIT_ASSERT(chain.in_one_block().empty());
        CPPUNIT_ASSERT(chain.assign(lock, pattern(kBlock)));
        CPPUNIT_ASSERT(chain.in_one_block() == pattern(kBlock));
        chain.release(lock);
        CPPUNIT_ASSERT(chain.assign(lock, pattern(kBlock + 1)));
        CPPUNIT_ASSERT(chain.in_one_block().empty());
        chain.release(lock);
    }

    void assigning_survives_each_failed_allocation() {
        const std::string text = pattern(3 * kBlock);
        SharedLock lock(memory);
        for (int count = 0; count < 3; ++count) {
            TextChain chain;
            memory.fail_after(count);
            CPPUNIT_ASSERT(!chain.assign(lock, text));
            CPPUNIT_ASSERT(chain.first == nullptr && chain.size == 0);
            CPPUNIT_ASSERT_EQUAL(std::size_t{0}, memory.live_blocks());
        }
    }

private:
    static std::vector<std::size_t> sizes() {
        return {0, 1, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 2 * kBlock + 1};
    }
    static std::string pattern(std::size_t size) {
        std::string text;
        for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(i * 31 % 256);
        return text;
    }

    HeapMemory memory;
};

CPPUNIT_TEST_SUITE_REGISTRATION(TextChainTest);

}  // namespace

}  // namespace durable
