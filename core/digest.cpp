// SPDX-License-Identifier: BSD-2-Clause
#include "core/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace durable {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr char kBase64Digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_hex(const unsigned char* bytes, std::size_t count) {
    std::string hex;
    hex.reserve(count * 2);
    for (std::size_t i = 0; i < count; ++i) {
        hex += kHexDigits[bytes[i] >> 4];
        hex += kHexDigits[bytes[i] & 15];
    }
    return hex;
}

int base64_value(char digit) noexcept {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    if (digit == '+' || digit == '-') return 62;
    if (digit == '/' || digit == '_') return 63;
    return -1;
}

}  // namespace

std::string sha256_hex(std::string_view data) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_Digest(data.data(), data.size(), hash, &length, EVP_sha256(), nullptr) != 1) return {};
    return to_hex(hash, length);
}

std::string hmac_sha256(std::string_view key, std::string_view data) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    // A null key means "reuse the last one" to libcrypto, so an empty key must still point somewhere.
    const char* key_bytes = key.empty() ? "" : key.data();
    const auto* input = reinterpret_cast<const unsigned char*>(data.data());
    if (HMAC(EVP_sha256(), key_bytes, static_cast<int>(key.size()), input, data.size(), mac, &length) == nullptr) {
        return {};
    }
    return std::string(reinterpret_cast<const char*>(mac), length);
}

std::string base64_encode(std::string_view data) {
    std::string text;
    text.reserve((data.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < data.size(); i += 3) {
        const std::size_t count = data.size() - i < 3 ? data.size() - i : 3;
        unsigned group = 0;
        for (std::size_t j = 0; j < 3; ++j) {
            group = group << 8 | (j < count ? static_cast<unsigned char>(data[i + j]) : 0U);
        }
        for (std::size_t j = 0; j < 4; ++j) text += j <= count ? kBase64Digits[group >> (18 - 6 * j) & 63] : '=';
    }
    return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
    for (int padding = 0; padding < 2 && !text.empty() && text.back() == '='; ++padding) text.remove_suffix(1);
    if (text.size() % 4 == 1) return std::nullopt;
    std::string data;
    unsigned bits = 0;
    int count = 0;
    for (const char digit : text) {
        const int value = base64_value(digit);
        if (value < 0) return std::nullopt;
        bits = (bits << 6 | static_cast<unsigned>(value)) & 0xFFFFU;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        data += static_cast<char>(bits >> count & 0xFFU);
    }
    return data;
}

std::string uuid_v4() {
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1) return {};
    bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
    bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
    std::string uuid = to_hex(bytes, sizeof bytes);
    for (const std::size_t at : {8U, 13U, 18U, 23U}) uuid.insert(at, 1, '-');
    return uuid;
}

}  // namespace durable
