<?php
// SPDX-License-Identifier: BSD-2-Clause
// Waits for the next message of a room, up to a minute.
require __DIR__ . '/host_call.php';

header('Content-Type: text/plain; charset=utf-8');
$subscription = host_call('POST', 'channels/' . room_channel() . '/subscriptions')['subscription'];
$message = host_call('GET', "subscriptions/$subscription/message?timeout=60000");
if ($message['status'] === 1) {
    http_response_code(204);
} else {
    echo $message['text'], "\n";
}
// The subscription ends with this page.
