// SPDX-License-Identifier: BSD-2-Clause
// The same twenty requests, with and without a line in front of the application.

const requests = 20;
const note = document.getElementById('counter-note');
const buttons = ['free', 'exclusive'].map(name => document.getElementById(`counter-${name}`));

async function count_up(name) {
  const answer = await fetch(`/counter/${name}`, {method: 'POST'});
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return Number(await answer.text());
}

async function run(name) {
  for (const button of buttons) button.disabled = true;
  note.textContent = 'Running.';
  try {
    const before = await count_up(name);
    const after = Math.max(...await Promise.all(Array.from({length: requests}, () => count_up(name))));
    const gain = after - before;
    note.textContent = gain === requests ? `All ${requests} were counted.`
      : `${requests} requests, but the number went up by ${gain}: ${requests - gain} were lost.`;
  } catch (failure) {
    note.textContent = `It failed: ${failure.message}`;
  }
  for (const button of buttons) button.disabled = false;
}

buttons[0].addEventListener('click', () => run('free'));
buttons[1].addEventListener('click', () => run('exclusive'));
