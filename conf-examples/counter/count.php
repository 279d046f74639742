<?php
// SPDX-License-Identifier: BSD-2-Clause
// Asks for a section on this request's object, and answers what it did.

$context = stream_context_create(['http' => [
    'method' => 'POST',
    'header' => ['Durable-Event: ' . $_SERVER['HTTP_DURABLE_EVENT'], 'Content-Type: application/json', 'Connection: close'],
    'content' => json_encode(['name' => $_GET['key'] ?? '']),
    'ignore_errors' => true,
    'timeout' => 90,
    'protocol_version' => 1.1,
]]);
$text = file_get_contents("http://127.0.0.1:{$_SERVER['SERVER_PORT']}/durable/exclusive/count", false, $context);
$answer = json_decode((string) $text, true);
if (!isset($answer['number'])) {
    http_response_code(503);
}
header('Content-Type: application/json');
echo json_encode($answer['number'] ?? $answer), "\n";
