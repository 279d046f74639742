// SPDX-License-Identifier: BSD-2-Clause
// Verifies webhook calls: node verify.cjs SECRET < LINES, each {"headers": {…}, "text": "…"} in JSON.
// Prints `ok` or the reason for each.
const path = require('node:path');
const { Webhook } = require(path.join(process.env.NODE_MODULES, 'standardwebhooks'));
const webhook = new Webhook(process.argv[2]);
for (const line of require('node:fs').readFileSync(0, 'utf8').split('\n').filter(text => text)) {
    const { headers, text } = JSON.parse(line);
    try {
        webhook.verify(text, headers);
        console.log('ok');
    } catch (error) {
        console.log(error.message);
    }
}
