// SPDX-License-Identifier: BSD-2-Clause
// https handlers: the certificate must be valid and name the host (E-34). The receiver makes its own certificate.
#include <arpa/inet.h>
#include <cppunit/extensions/HelperMacros.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "core/tests/store_probe.h"

namespace {

using durable_test::ScratchFolder;
using durable_test::StoreProbe;

// Serves https on the loopback with a self-signed certificate for `names` (as in subjectAltName).
class TlsReceiver {
public:
    explicit TlsReceiver(const char* names) {
        key_ = EVP_RSA_gen(2048);
        certificate_ = X509_new();
        X509_set_version(certificate_, 2);
        ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
        X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
        X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
        X509_set_pubkey(certificate_, key_);
        X509_NAME* name = X509_get_subject_name(certificate_);
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
        X509_set_issuer_name(certificate_, name);
        X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names);
        X509_add_ext(certificate_, extension, -1);
        X509_EXTENSION_free(extension);
        X509_sign(certificate_, key_, EVP_sha256());
        context_ = SSL_CTX_new(TLS_server_method());
        SSL_CTX_use_certificate(context_, certificate_);
        SSL_CTX_use_PrivateKey(context_, key_);
        listen_on_loopback();
        thread_ = std::thread([this] { serve(); });
    }
    ~TlsReceiver() {
        stop_ = true;
        thread_.join();
        ::close(listener_);
        SSL_CTX_free(context_);
        X509_free(certificate_);
        EVP_PKEY_free(key_);
    }

    void write_certificate(const std::string& path) const {
        FILE* file = std::fopen(path.c_str(), "w");
        PEM_write_X509(file, certificate_);
        std::fclose(file);
    }
    std::string url(const std::string& host) const { return "https://" + host + ':' + std::to_string(port_) + "/hook"; }
    int requests() const { return requests_; }
    bool has_server_name() const { return has_server_name_; }

private:
    void listen_on_loopback() {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(listener_, 16);
        socklen_t size = sizeof address;
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
    }
    void serve() {
        while (!stop_) {
            pollfd ready{listener_, POLLIN, 0};
            if (::poll(&ready, 1, 20) <= 0) continue;
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            SSL* tls = SSL_new(context_);
            SSL_set_fd(tls, connection);
            if (SSL_accept(tls) == 1) answer(tls);
            SSL_free(tls);
            ::close(connection);
        }
    }
    void answer(SSL* tls) {
        char block[65536];
        if (SSL_read(tls, block, sizeof block) <= 0) return;
        has_server_name_ = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name) != nullptr;
        ++requests_;
        const std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        SSL_write(tls, text.data(), static_cast<int>(text.size()));
    }

    EVP_PKEY* key_ = nullptr;
    X509* certificate_ = nullptr;
    SSL_CTX* context_ = nullptr;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<bool> stop_{false};
    std::atomic<int> requests_{0};
    std::atomic<bool> has_server_name_{false};
    std::thread thread_;
};

class WebhookTlsTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(WebhookTlsTest);
    CPPUNIT_TEST(a_trusted_certificate_for_the_host_is_accepted_E_34);
    CPPUNIT_TEST(a_trusted_certificate_for_the_address_is_accepted_E_34);
    CPPUNIT_TEST(an_untrusted_certificate_is_refused_E_34);
    CPPUNIT_TEST(a_certificate_for_another_host_is_refused_E_34);
    CPPUNIT_TEST_SUITE_END();

    ScratchFolder folder_;

    // Publishes to a handler at `host`, and waits for what the receiver sees.
    int deliver(TlsReceiver& receiver, const std::string& host, bool is_trusted, bool expects_call) {
        const std::string path = folder_.path() + "/certificate.pem";
        receiver.write_certificate(path);
        ::setenv("SSL_CERT_FILE", is_trusted ? path.c_str() : "/dev/null", 1);
        {
            StoreProbe store(folder_.store(), {{"hook", receiver.url(host), "secret", 2000}});
            const auto made = store.subscribe(R"({"subject":"topic:a","delivery":"single","handlerName":"hook"})");
            CPPUNIT_ASSERT_EQUAL_MESSAGE(made.body, 200, made.status);
            store.publish(R"({"subject":"topic:a"})");
            for (int i = 0; i < (expects_call ? 500 : 60) && receiver.requests() == 0; ++i) store.collect(10);
        }
        ::unsetenv("SSL_CERT_FILE");
        ::unlink(path.c_str());
        return receiver.requests();
    }

public:
    // E-34
    void a_trusted_certificate_for_the_host_is_accepted_E_34() {
        TlsReceiver receiver("DNS:localhost");
        CPPUNIT_ASSERT_EQUAL(1, deliver(receiver, "localhost", true, true));
        CPPUNIT_ASSERT(receiver.has_server_name());
    }
    // E-34
    void a_trusted_certificate_for_the_address_is_accepted_E_34() {
        TlsReceiver receiver("IP:127.0.0.1");
        CPPUNIT_ASSERT_EQUAL(1, deliver(receiver, "127.0.0.1", true, true));
        CPPUNIT_ASSERT(!receiver.has_server_name());
    }
    // E-34
    void an_untrusted_certificate_is_refused_E_34() {
        TlsReceiver receiver("DNS:localhost");
        CPPUNIT_ASSERT_EQUAL(0, deliver(receiver, "localhost", false, false));
    }
    // E-34
    void a_certificate_for_another_host_is_refused_E_34() {
        TlsReceiver receiver("DNS:other.test,IP:127.0.0.2");
        CPPUNIT_ASSERT_EQUAL(0, deliver(receiver, "localhost", true, false));
        CPPUNIT_ASSERT_EQUAL(0, deliver(receiver, "127.0.0.1", true, false));
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(WebhookTlsTest);

}  // namespace
