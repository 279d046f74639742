// SPDX-License-Identifier: BSD-2-Clause
// A request whose answer is an event stream of the application's own.

import {room} from './room.js';

const [button, progress, note] = ['button', 'progress', 'note'].map(name => document.getElementById(`job-${name}`));
let stream = null;

function stop(words) {
  stream.close();
  stream = null;
  button.textContent = 'Start';
  note.textContent = words;
}

function start() {
  stream = new EventSource(`/job?channel=${encodeURIComponent(room)}`);
  button.textContent = 'Cancel';
  progress.value = 0;
  note.textContent = 'Starting.';
  stream.addEventListener('progress', event => {
    progress.value = Number(event.data);
    note.textContent = `${event.data} %`;
  });
  stream.addEventListener('done', () => stop('Done.'));
  stream.onerror = () => stop('The job was cut off.');
}

button.addEventListener('click', () => stream ? stop('Cancelled.') : start());
