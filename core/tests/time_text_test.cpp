// SPDX-License-Identifier: BSD-2-Clause
#include "core/time_text.h"

#include <cppunit/extensions/HelperMacros.h>

namespace {

class TimeTextTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(TimeTextTest);
    CPPUNIT_TEST(iso_8601_is_read_E_11);
    CPPUNIT_TEST(what_is_no_time_is_refused_E_11);
    CPPUNIT_TEST(retry_after_takes_both_forms_E_34);
    CPPUNIT_TEST_SUITE_END();

public:
    // E-11
    void iso_8601_is_read_E_11() {
        const std::pair<const char*, std::int64_t> rows[] = {
            {"1970-01-01", 0},
            {"2024-02-29", 1709164800},
            {"2001-09-09T01:46:40Z", 1000000000},
            {"2001-09-09T01:46:40.999Z", 1000000000},
            {"2001-09-09T03:46:40+02:00", 1000000000},
            {"2001-09-08T20:16:40-0530", 1000000000},
            {"2001-09-09T01:46:40", 1000000000},
            {"2001-09-09T01:46Z", 999999960},
            {"2001-09-08T24:00:00Z", 999993600},
            {"1969-12-31T23:59:59Z", -1},
        };
        for (const auto& [text, seconds] : rows) {
            CPPUNIT_ASSERT_MESSAGE(text, durable::parse_iso_time(text) == seconds);
        }
    }

    // E-11
    void what_is_no_time_is_refused_E_11() {
        for (const char* bad : {"", "tomorrow", "2023-02-29", "2023-13-01", "2023-1-1", "2023-01-01T",
                                "2023-01-01T25:00Z", "2023-01-01T24:01Z", "2023-01-01T10:00Zx", "2023-01-01T10:00+",
                                "2023-01-01T10:00:00.Z", "1700000000", "2023-01-01 "}) {
            CPPUNIT_ASSERT_MESSAGE(bad, !durable::parse_iso_time(bad));
        }
    }

    // E-34
    void retry_after_takes_both_forms_E_34() {
        CPPUNIT_ASSERT(durable::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == 784111777);
        CPPUNIT_ASSERT(durable::parse_retry_after(" 120 ", 0) == 120);
        CPPUNIT_ASSERT(durable::parse_retry_after("99999999999999999999", 0) == 1000000000);
        CPPUNIT_ASSERT(durable::parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111700) == 77);
        CPPUNIT_ASSERT(durable::parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111800) == 0);
        for (const char* bad : {"", "-1", "soon", "1.5", "Sun, 31 Feb 1994 08:49:37 GMT"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, !durable::parse_retry_after(bad, 0));
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(TimeTextTest);

}  // namespace
