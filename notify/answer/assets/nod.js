// The page's one script: it asks the passkey, counts down and follows a transcript.
// Text from the server goes into the page as text, never as markup.
(() => {
  'use strict';
  const $ = (id) => document.getElementById(id);
  const all = (css) => [...document.querySelectorAll(css)];

  const toBytes = (s) => Uint8Array.from(atob(s.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  const toText = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

  async function post(path, body) {
    const answer = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), credentials: 'same-origin' });
    const data = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const error = new Error((data.error && data.error.message) || 'nod did not answer');
      error.code = data.error && data.error.code;
      throw error;
    }
    return data;
  }

  async function assert(begun) {
    const o = begun.options;
    const got = await navigator.credentials.get({
      publicKey: {
        challenge: toBytes(o.challenge), rpId: o.rpId, timeout: o.timeout, userVerification: 'required',
        allowCredentials: (o.allowCredentials || []).map((c) => ({ type: 'public-key', id: toBytes(c.id) })),
      },
    });
    const r = got.response;
    return {
      challenge: begun.challenge,
      credential: {
        id: got.id,
        response: {
          clientDataJSON: toText(r.clientDataJSON), authenticatorData: toText(r.authenticatorData), signature: toText(r.signature),
          ...(r.userHandle && { userHandle: toText(r.userHandle) }),
        },
      },
    };
  }

  async function create(begun) {
    const o = begun.options;
    const made = await navigator.credentials.create({
      publicKey: {
        challenge: toBytes(o.challenge), rp: o.rp, user: { ...o.user, id: toBytes(o.user.id) }, pubKeyCredParams: o.pubKeyCredParams,
        timeout: o.timeout, attestation: 'none', authenticatorSelection: o.authenticatorSelection,
        excludeCredentials: (o.excludeCredentials || []).map((c) => ({ type: 'public-key', id: toBytes(c.id) })),
      },
    });
    return {
      challenge: begun.challenge,
      credential: { id: made.id, response: { clientDataJSON: toText(made.response.clientDataJSON), attestationObject: toText(made.response.attestationObject) } },
    };
  }

  function say(text, bad) {
    const status = $('status');
    if (!status) return;
    status.textContent = text;
    status.classList.toggle('bad', Boolean(bad));
  }

  function explain(error) {
    if (error.name === 'NotAllowedError') return 'The passkey was not used. Nothing was sent.';
    if (error.name === 'InvalidStateError') return 'This device has a passkey for nod already.';
    return error.message || 'Something went wrong.';
  }

  let busy = false;
  async function attempt(doing, work) {
    if (busy) return;
    busy = true;
    const buttons = all('main button, .act button').filter((b) => !b.disabled);
    buttons.forEach((b) => { b.disabled = true; });
    say(doing);
    try {
      await work();
    } catch (error) {
      if (error.code === 'conflict' || error.code === 'expired' && $('act') || error.code === 'unauthenticated') {
        say(explain(error), true);
        setTimeout(() => location.reload(), 1500);
        return;
      }
      say(explain(error), true);
      buttons.forEach((b) => { b.disabled = false; });
    }
    busy = false;
  }

  // What a tap will need is fetched before it: a browser opens the passkey dialog only
  // while it counts the tap as fresh, and a slow network would use that up. A challenge
  // lives for two minutes.
  const ready = new Map();
  const fresh = 100000;
  function ahead(path, body) {
    const key = path + JSON.stringify(body);
    const old = ready.get(key);
    if (busy || old && performance.now() - old.at < fresh / 2) return;
    ready.set(key, { at: performance.now(), begun: post(path, { ...body, ahead: true }).catch(() => null) });
  }
  async function begin(path, body) {
    const key = path + JSON.stringify(body);
    const kept = ready.get(key);
    ready.delete(key);
    const begun = kept && performance.now() - kept.at < fresh && await kept.begun;
    return begun || post(path, body);
  }
  // Fetches again while the page is looked at, so that what is kept stays good.
  function keepAhead(path, body) {
    const again = () => { if (!document.hidden) ahead(path, body); };
    again();
    setInterval(again, fresh / 2 + 1000);
    document.addEventListener('visibilitychange', again);
  }
  // Fetches when typing pauses.
  function aheadOfTyping(field, path, body) {
    let timer = 0;
    field.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => { if (field.value.trim()) ahead(path, body(field.value)); }, 400);
    });
  }

  const decision = () => document.querySelector('main').dataset.decision;
  const asAnswer = (value, reason) => ({ decision: decision(), answer: value, reason });
  const asAct = (kind, words) => ({ task: document.querySelector('main').dataset.task, act: kind, words });

  const answer = (value, reason) => attempt('Waiting for your passkey…', async () => {
    const begun = await begin('/api/answer/begin', asAnswer(value, reason));
    const done = await post('/api/answer/finish', await assert(begun));
    say('Recorded.');
    location.replace(done.next);
  });

  const act = (kind, words) => attempt('Waiting for your passkey…', async () => {
    const begun = await begin('/api/act/begin', asAct(kind, words));
    const done = await post('/api/act/finish', await assert(begun));
    say('Recorded.');
    location.assign(done.next);
  });

  function acts() {
    if (!$('acts')) return;
    $('say').addEventListener('click', () => { if ($('words').value.trim()) act('say', $('words').value); else $('words').focus(); });
    aheadOfTyping($('words'), '/api/act/begin', (words) => asAct('say', words));
    for (const kind of ['pause', 'resume', 'cancel']) {
      if (!$(kind)) continue;
      // The first touch comes before the click, and so does the keyboard's focus.
      for (const early of ['pointerdown', 'focus']) $(kind).addEventListener(early, () => ahead('/api/act/begin', asAct(kind, '')));
      $(kind).addEventListener('click', () => act(kind, ''));
    }
  }

  function ceremonies() {
    const main = document.querySelector('main[data-ceremony]');
    if (!main) return;
    const path = '/api/' + main.dataset.ceremony + '/begin';
    const body = main.dataset.ceremony === 'enrol' ? { token: main.dataset.token } : {};
    if (usable()) keepAhead(path, body);
    $('go').addEventListener('click', () => attempt('Waiting for your passkey…', async () => {
      if (main.dataset.ceremony === 'enrol') {
        const begun = await begin(path, body);
        const done = await post('/api/enrol/finish', await create(begun));
        say('Added.');
        location.replace(done.next);
        return;
      }
      const begun = await begin(path, body);
      await post('/api/signin/finish', await assert(begun));
      if (main.dataset.next === location.pathname) location.reload(); else location.replace('/');
    }));
  }

  function answers() {
    all('[data-answer]').forEach((b) => b.addEventListener('click', () =>
      answer(b.dataset.answer, b.dataset.answer === 'deny' && $('reason') ? $('reason').value : '')));
    all('[data-coded]').forEach((b) => b.addEventListener('click', () => answer(new TextDecoder().decode(toBytes(b.dataset.coded)), '')));
    if (usable() && $('act')) {
      for (const b of all('[data-answer]').slice(0, 6)) if (b.dataset.answer !== 'deny' || !$('reason')) keepAhead('/api/answer/begin', asAnswer(b.dataset.answer, ''));
      for (const b of all('[data-coded]').slice(0, 6)) keepAhead('/api/answer/begin', asAnswer(new TextDecoder().decode(toBytes(b.dataset.coded)), ''));
      if ($('reason')) aheadOfTyping($('reason'), '/api/answer/begin', (reason) => asAnswer('deny', reason));
      if ($('words')) aheadOfTyping($('words'), '/api/answer/begin', (words) => asAnswer(words, ''));
    }
    if ($('ask')) {
      const choose = (open) => { $('why').hidden = !open; $('choose').hidden = open; (open ? $('reason') : $('ask')).focus(); };
      $('ask').addEventListener('click', () => { choose(true); ahead('/api/answer/begin', asAnswer('deny', $('reason').value)); });
      $('back').addEventListener('click', () => choose(false));
    }
    if ($('send')) $('send').addEventListener('click', () => { if ($('words').value.trim()) answer($('words').value, ''); else $('words').focus(); });
  }

  // Passkeys need a secure context and a browser that offers them.
  const usable = () => window.isSecureContext && window.PublicKeyCredential && navigator.credentials;
  function passkeysOrLink() {
    const wanted = document.querySelector('[data-ceremony]') || $('act') || $('acts');
    if (!wanted) return;
    if (usable()) {
      all('#go, #ask, #send, #say, #pause, #resume, #cancel, [data-answer], [data-coded]').forEach((b) => { b.disabled = false; });
      return;
    }
    $('nokey').hidden = false;
    $('link').value = location.href;
    $('copy').addEventListener('click', async () => {
      $('link').select();
      try { await navigator.clipboard.writeText(location.href); } catch { document.execCommand('copy'); }
      $('copy').textContent = 'Copied';
    });
  }

  const two = (n) => String(n).padStart(2, '0');
  function remaining(s) {
    if (s >= 86400) return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
    if (s >= 3600) return Math.floor(s / 3600) + ':' + two(Math.floor(s % 3600 / 60)) + ':' + two(s % 60);
    return Math.floor(s / 60) + ':' + two(s % 60);
  }

  // What is left counts from the page's arrival, so a wrong clock does not matter.
  function countdowns() {
    const started = performance.now();
    const clocks = all('[data-left]');
    const tick = () => {
      for (const c of clocks) {
        const left = Math.max(0, Math.ceil(Number(c.dataset.left) - (performance.now() - started) / 1000));
        const clock = c.classList.contains('clock');
        c.querySelector('time').textContent = remaining(left) + (clock ? ' left' : '');
        if (!clock) continue;
        c.querySelector('progress').value = left;
        c.classList.toggle('soon', left < 60);
        if (left === 0 && !busy) { clearInterval(timer); busy = true; location.reload(); }
      }
    };
    const timer = clocks.length ? setInterval(tick, 1000) : 0;
    tick();
  }

  function localTimes() {
    const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
    all('time').forEach((t) => {
      if (!t.closest('[data-left]')) t.textContent = format.format(new Date(t.dateTime));
    });
  }

  function element(name, className, ...children) {
    const e = document.createElement(name);
    if (className) e.className = className;
    e.append(...children);
    return e;
  }

  function transcript() {
    const main = document.querySelector('main[data-live]');
    if (!main) return;
    const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
    const source = new EventSource('/t/' + main.dataset.task + '/events?after=' + main.dataset.after);
    source.onopen = () => { $('live').textContent = 'Live.'; };
    source.onerror = () => { $('live').textContent = source.readyState === EventSource.CLOSED ? 'Not live any more. Load the page again.' : 'Reconnecting…'; };
    source.onmessage = (message) => {
      const e = JSON.parse(message.data);
      if (e.fresh) $('fresh').hidden = false;
      let what = e.what;
      if (e.link && e.link.startsWith('/d/')) {
        what = element('a', '', e.what);
        what.href = e.link;
      }
      const item = element('li', (e.who === 'agent' ? 'agent' : 'nod') + (e.short ? ' short' : ''), element('p', 'head', e.who + ' ', what, ' · ' + time.format(new Date(e.at))));
      if (e.text) {
        item.append(element('pre', 'logical', ...e.text.map((s) => {
          if (!s.m) return s.t || '';
          const mark = element('mark', '', s.m);
          mark.title = s.n || '';
          return mark;
        })));
      }
      const end = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
      $('log').append(item);
      if (end) window.scrollTo(0, document.body.scrollHeight);
    };
  }

  // A phone comes back to the inbox after minutes: show what is open now.
  function freshInbox() {
    if (document.body.dataset.page !== 'inbox') return;
    const loaded = performance.now();
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && performance.now() - loaded > 15000) location.reload();
    });
  }

  // Whoever looks is not reminded. A page in a hidden tab has not been looked at.
  function look() {
    if (!$('act')) return;
    const say = () => {
      if (document.hidden) return;
      document.removeEventListener('visibilitychange', say);
      post('/api/seen', { decision: decision() }).catch(() => {});
    };
    document.addEventListener('visibilitychange', say);
    say();
  }

  ceremonies();
  acts();
  answers();
  look();
  if ($('tap')) $('tap').submit();
  passkeysOrLink();
  countdowns();
  localTimes();
  transcript();
  freshInbox();
})();
