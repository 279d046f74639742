// SPDX-License-Identifier: BSD-2-Clause
#include "core/object.h"

namespace durable {

ObjectRecord* find_object(const ZoneLock& lock, std::string_view key) noexcept {
    return lock.root().objects.find(hash_bytes(key), [key](const ObjectRecord& object) { return object.key() == key; });
}

ObjectRecord* refer_to_object(ZoneLock& lock, std::string_view key) noexcept {
    ObjectRecord* object = find_object(lock, key);
    if (object == nullptr) {
        object = lock.create<ObjectRecord>(key.size());
        if (object == nullptr) return nullptr;
        object->key_size = static_cast<std::uint16_t>(key.size());
        key.copy(object->key_bytes(), key.size());
        lock.root().objects.insert(*object, hash_bytes(key));
    }
    ++object->references;
    return object;
}

void release_object(ZoneLock& lock, ObjectRecord& object) noexcept {
    if (--object.references != 0) return;
    lock.root().objects.remove(object);
    lock.destroy(&object);
}

}  // namespace durable
