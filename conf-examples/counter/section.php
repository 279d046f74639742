<?php
// SPDX-License-Identifier: BSD-2-Clause
// The section: what no other of the same object does at the same time. Its answer is its result.

if (($_SERVER['HTTP_DURABLE_EVENT_KIND'] ?? '') !== 'durable-block' || $_SERVER['HTTP_DURABLE_OPERATION'] !== 'count') {
    http_response_code(404);
    exit;
}
$params = json_decode(file_get_contents('php://input'), true, 512, JSON_THROW_ON_ERROR);
$file = sys_get_temp_dir() . '/durable-counter-' . hash('sha256', $params['name']);
$number = is_file($file) ? (int) file_get_contents($file) : 0;
usleep(30000);
file_put_contents("$file.new", $number + 1);
rename("$file.new", $file);
echo json_encode(['number' => $number + 1]);
