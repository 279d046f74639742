// SPDX-License-Identifier: BSD-2-Clause
// Digests, signatures and random identifiers, by libcrypto. Every call is independent of the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace durable {

// Lower-case hex, 64 characters; empty when libcrypto fails.
[[nodiscard]] std::string sha256_hex(std::string_view data);

// 32 raw bytes; empty when libcrypto fails.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view data);

// RFC 4648 section 4, with padding.
[[nodiscard]] std::string base64_encode(std::string_view data);

// Takes both alphabets of RFC 4648, padding optional; nullopt for anything else.
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

// RFC 9562 version 4; empty when no random bytes are to be had.
[[nodiscard]] std::string uuid_v4();

}  // namespace durable
