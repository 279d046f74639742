// SPDX-License-Identifier: BSD-2-Clause
// The room is one channel. What is written goes out by POST, and comes back to everyone, the
// writer too, on the event stream.

export const room = new URLSearchParams(location.search).get('room') || 'lobby';
const at = `?channel=${encodeURIComponent(room)}`;
const kept_messages = 300;

const part = name => document.getElementById(`room-${name}`);
const [log, nick, text, note] = ['log', 'nick', 'text', 'note'].map(part);

part('name').textContent = room;
document.getElementById('shell-sub').textContent = `curl -N '${location.origin}/sub${at}'`;
document.getElementById('shell-pub').textContent = `curl -d hello '${location.origin}/pub${at}'`;

// ---- what the others see ----

nick.value = sessionStorage.getItem('nick') || `guest ${100 + Math.floor(Math.random() * 900)}`;
nick.addEventListener('change', () => sessionStorage.setItem('nick', nick.value));

const me = crypto.getRandomValues(new Uint32Array(2)).join('-');
const content = more => JSON.stringify({from: nick.value, id: me, ...more});

// A text that another window wrote, or one that somebody sent by hand.
function read(data) {
  try {
    const message = JSON.parse(data);
    if (message && typeof message.from === 'string') return message;
  } catch { /* plain text */ }
  return {from: 'from a shell', text: data};
}

function hue(name) {
  let sum = 0;
  for (const character of name) sum = (sum * 31 + character.codePointAt(0)) % 360;
  return sum;
}

function element(tag, name, content) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = content;
  return made;
}

function append(item) {
  const is_at_end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(item);
  while (log.children.length > kept_messages) log.children[1].remove();
  if (is_at_end) log.scrollTop = log.scrollHeight;
}

function append_message(message) {
  const item = element('li', message.id === me ? 'message mine' : 'message', '');
  const by = element('div', 'by', '');
  const name = element('span', 'name', message.from);
  name.style.setProperty('--hue', hue(message.from));
  by.append(name, element('time', '', new Date().toLocaleTimeString([], {timeStyle: 'short'})));
  item.append(by, element('div', 'text', message.text));
  append(item);
}

// ---- writing ----

function say(words, is_bad) {
  note.textContent = words;
  note.classList.toggle('bad', is_bad);
}

function show_count(number) {
  part('count').hidden = false;
  part('count').textContent = number === 1 ? 'only you' : `${number} here`;
}

async function look() {
  const answer = await fetch(`/look/channels/${encodeURIComponent(room)}`).catch(() => null);
  if (answer?.ok) show_count((await answer.json()).subscriptions);
}

// The answer says how many streams the text went to.
async function publish(body, event) {
  const answer = await fetch(`/pub${at}${event ? `&event=${event}` : ''}`, {method: 'POST', body});
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.message);
  show_count(result.delivered);
}

const sent = new Map();    // when each of our own messages left, by its number
let next_number = 0;

async function send() {
  const words = text.value.trim();
  if (!words) return;
  const number = next_number++;
  sent.set(number, performance.now());
  try {
    const body = content({number, text: words});
    text.value = '';
    await publish(body);
  } catch (failure) {
    sent.delete(number);
    text.value = words;
    say(`Not sent: ${failure.message}`, true);
  }
}

part('form').addEventListener('submit', event => {
  event.preventDefault();
  send();
});
text.addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  part('form').requestSubmit();
});

// ---- listening ----

function show_state(state, words) {
  part('state').dataset.state = state;
  part('state').textContent = words;
}

function note_round_trip(message) {
  const left = sent.get(message.number);
  if (message.id !== me || left === undefined) return;
  sent.delete(message.number);
  say(`Back from the server after ${(performance.now() - left).toFixed(1)} ms.`, false);
}

function listen() {
  const stream = new EventSource(`/sub${at}`);
  stream.onopen = () => {
    show_state('live', 'live');
    publish(content({}), 'joined').catch(failure => say(failure.message, true));
  };
  stream.onmessage = event => {
    const message = read(event.data);
    append_message(message);
    note_round_trip(message);
  };
  stream.addEventListener('joined', event => {
    const who = read(event.data);
    if (who.id === me) return;
    append(element('li', 'event', `${who.from} came in`));
    look();
  });
  stream.addEventListener('left', event => {
    append(element('li', 'event', `${read(event.data).from} left`));
    setTimeout(look, 500);    // its stream is still closing
  });
  stream.addEventListener('job', event => append(element('li', 'event', event.data)));
  stream.addEventListener('durable-close', event => append(element('li', 'event', `closed: ${event.data}`)));
  stream.onerror = () => {
    show_state('lost', 'reconnecting');
    // The browser tries again by itself, except after an answer that is no event stream.
    if (stream.readyState !== EventSource.CLOSED) return;
    setTimeout(listen, 2000);
  };
  addEventListener('pagehide', () => stream.close(), {once: true});
}

addEventListener('pagehide', () => navigator.sendBeacon(`/pub${at}&event=left`, content({})));
addEventListener('pageshow', event => event.persisted && listen());
listen();
