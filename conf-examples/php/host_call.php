<?php
// SPDX-License-Identifier: BSD-2-Clause

// Makes one host call of the event that this request is; its answer as an array.
function host_call(string $method, string $path, string $body = '', int $seconds = 75): array
{
    $context = stream_context_create(['http' => [
        'method' => $method,
        'header' => ['Durable-Event: ' . $_SERVER['HTTP_DURABLE_EVENT'], 'Content-Type: text/plain',
                     'Content-Length: ' . strlen($body), 'Connection: close'],
        'content' => $body,
        'ignore_errors' => true,
        'timeout' => $seconds,
        'protocol_version' => 1.1,
    ]]);
    $text = file_get_contents("http://127.0.0.1:{$_SERVER['SERVER_PORT']}/durable/$path", false, $context);
    if ($text === false) {
        throw new RuntimeException("$method $path: no answer");
    }
    $answer = $text === '' ? [] : json_decode($text, true, 512, JSON_THROW_ON_ERROR);
    if (isset($answer['message'])) {
        throw new RuntimeException("$method $path: {$answer['code']}: {$answer['message']}");
    }
    return $answer;
}

// The channel of the room that the page is about; its name may be any text.
function room_channel(): string
{
    return 'room:' . hash('xxh64', $_GET['room'] ?? '');
}
