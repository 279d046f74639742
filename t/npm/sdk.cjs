// SPDX-License-Identifier: BSD-2-Clause
// The unmodified client of the events API's wire format against a server: node sdk.cjs ORIGIN TOKEN
// Prints one line for each step that came out right, and fails at the first that does not.
const assert = require('node:assert');
const path = require('node:path');
const [origin, token] = process.argv.slice(2);

// The client would open a browser to sign in, with a package that Node.js 18 cannot require().
const Module = require('node:module');
const load = Module._load;
Module._load = (name, ...rest) => name === 'open' ? () => {} : load(name, ...rest);
globalThis.CustomEvent ??= class extends Event {
    constructor(type, options) {
        super(type, options);
        this.detail = options?.detail ?? null;
    }
};

globalThis.PUTER_API_ORIGIN = origin;
globalThis.PUTER_ORIGIN = origin;
globalThis.puter_socket_enabled = false;
const root = path.join(process.env.NODE_MODULES, '@heyputer/puter.js');
const { init } = require(path.join(root, 'src/init.cjs'));
const puter = init(token);
puter.config = { autoRetry: false };
const step = text => console.log(`ok ${text}`);
// Objects of the client are of another realm.
const plain = value => JSON.parse(JSON.stringify(value));

async function refused(code, promise) {
    try {
        await promise;
    } catch (error) {
        assert.equal(error.code, code);
        return step(`refused: ${code}`);
    }
    assert.fail(`not refused: ${code}`);
}

async function main() {
    const { events } = puter;
    const made = [];
    for (let i = 0; i < 7; ++i) made.push(await events.onPersistent({ subject: `topic:sdk:${i}`, context: { n: i } }));
    for (const row of made) assert.match(row.subId, /^user#/);
    assert.deepEqual(plain(made[0].contextKeys), ['n']);
    step('onPersistent');
    const single = await events.onPersistent({ subject: 'fs:/docs/**:write', delivery: 'single', handlerName: 'h0',
                                               targets: ['worker'], expiresAt: Math.floor(Date.now() / 1000) + 3600 });
    assert.equal(single.delivery, 'single');
    assert.equal(single.handlerName, 'h0');
    assert.deepEqual(plain(single.anchor), { uid: '/docs', path: '/docs' });
    assert.equal(single.match, '**');
    assert.equal(single.op, 'write');
    step('onPersistent with a handler');

    const ids = [...made, single].map(row => row.subId);
    assert.deepEqual(plain(await events.list()).map(row => row.subId), ids);
    assert.deepEqual(plain(await events.list({ limit: 3 })).map(row => row.subId), ids);
    step('list: all of them');
    const page = plain(await events.list({ limit: 3, includeTotal: true }));
    assert.equal(page.total, 8);
    assert.deepEqual(page.items.map(row => row.subId), ids.slice(0, 3));
    const next = plain(await events.list({ limit: 3, cursor: page.cursor }));
    assert.deepEqual(next.items.map(row => row.subId), ids.slice(3, 6));
    assert.equal(next.total, undefined);
    step('list: a page');
    const seen = [];
    for await (const one of events.list({ stream: true, limit: 3 })) seen.push(...plain(one).items.map(row => row.subId));
    assert.deepEqual(seen, ids);
    step('list: a stream of pages');

    await events.unsubscribe(made[0].subId);
    await made[1].off();
    assert.deepEqual(plain(await events.list()).map(row => row.subId), ids.slice(2));
    step('unsubscribe and off');
    await refused('subscription_does_not_exist', events.unsubscribe(made[0].subId));

    await refused('events_handler_not_found', events.onPersistent({ subject: 'topic:x', handlerName: 'none' }));
    await refused('invalid_subject_pattern', events.onPersistent({ subject: 'topic:a*b' }));
    await refused('invalid_targets', events.onPersistent({ subject: 'topic:x', targets: ['mail'] }));
    await refused('invalid_expires_at', events.onPersistent({ subject: 'topic:x', expiresAt: 1 }));

    const publish = data => fetch(`${origin}/durable/events`, { method: 'POST', body: JSON.stringify({ subject: 'topic:kept', data }) })
        .then(answer => answer.json());
    for (let i = 0; i < 5; ++i) await publish(i);
    const first = plain(await events.fetch({ subject: 'topic:kept', limit: 3 }));
    assert.deepEqual(first.items.map(event => event.data), [0, 1, 2]);
    const rest = plain(await events.fetch({ subject: 'topic:kept', limit: 3, after: first.cursor }));
    assert.deepEqual(rest.items.map(event => event.data), [3, 4]);
    assert.equal(rest.cursor, undefined);
    step('fetch');

    await refused('too_many_requests', (async () => { for (let i = 0; i < 61; ++i) await events.onPersistent({ subject: 'topic:budget' }); })());
    puter.setAuthToken('nobody');
    await refused('token_missing', events.list({ cursor: null }));
    console.log('done');
    process.exit(0);
}

main().catch(error => {
    console.error(error);
    process.exit(1);
});
