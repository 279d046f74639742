<?php
// SPDX-License-Identifier: BSD-2-Clause
// Sends the request's body to those who wait in a room.
require __DIR__ . '/host_call.php';

header('Content-Type: text/plain; charset=utf-8');
$text = file_get_contents('php://input');
$delivered = host_call('POST', 'channels/' . room_channel() . '/messages', $text)['delivered'];
echo "delivered to $delivered\n";
