// SPDX-License-Identifier: BSD-2-Clause
#include "core/digest.h"

#include <cppunit/extensions/HelperMacros.h>

namespace {

class DigestTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(DigestTest);
    CPPUNIT_TEST(sha256_gives_the_vector_of_E_19);
    CPPUNIT_TEST(hmac_gives_the_vectors_of_rfc_4231);
    CPPUNIT_TEST(base64_gives_the_vectors_of_rfc_4648);
    CPPUNIT_TEST(what_is_not_base64_is_refused_E_22);
    CPPUNIT_TEST(uuids_are_version_4_and_differ_E_12);
    CPPUNIT_TEST_SUITE_END();

public:
    // E-19
    void sha256_gives_the_vector_of_E_19() {
        CPPUNIT_ASSERT_EQUAL(std::string("763b30b943411fdf63233e3efb0d4068c1e60276f92f43a57909712f567befba"),
                             durable::sha256_hex(R"({"b":1,"a":"é"})"));
        CPPUNIT_ASSERT_EQUAL(std::string("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
                             durable::sha256_hex(""));
    }

    void hmac_gives_the_vectors_of_rfc_4231() {
        const std::string mac = durable::hmac_sha256("Jefe", "what do ya want for nothing?");
        CPPUNIT_ASSERT_EQUAL(std::string("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="), durable::base64_encode(mac));
        CPPUNIT_ASSERT_EQUAL(std::size_t{32}, durable::hmac_sha256("", "").size());
    }

    void base64_gives_the_vectors_of_rfc_4648() {
        const char* const rows[][2] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                                       {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
        for (const auto& row : rows) {
            CPPUNIT_ASSERT_EQUAL(std::string(row[1]), durable::base64_encode(row[0]));
            CPPUNIT_ASSERT(durable::base64_decode(row[1]) == std::string(row[0]));
        }
        CPPUNIT_ASSERT(durable::base64_decode("-_8") == std::string("\xFB\xFF"));
        CPPUNIT_ASSERT(durable::base64_decode("+/8=") == std::string("\xFB\xFF"));
    }

    // E-22
    void what_is_not_base64_is_refused_E_22() {
        for (const char* bad : {"a", "abcde", "a b=", "====", "ab=c", "é"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, !durable::base64_decode(bad));
        }
    }

    // E-12
    void uuids_are_version_4_and_differ_E_12() {
        const std::string uuid = durable::uuid_v4();
        CPPUNIT_ASSERT_EQUAL(std::size_t{36}, uuid.size());
        CPPUNIT_ASSERT_EQUAL('4', uuid[14]);
        CPPUNIT_ASSERT(std::string("89ab").find(uuid[19]) != std::string::npos);
        CPPUNIT_ASSERT(uuid != durable::uuid_v4());
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(DigestTest);

}  // namespace
