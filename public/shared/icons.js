import { html } from './lit.js'

const shapes = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 4v3h6V4z',
  orders: 'M6 3h12v18l-3-2-3 2-3-2-3 2zM9 8h6M9 12h6',
  stores: 'M4 10v10h16V10M3 10l2-6h14l2 6zM10 20v-5h4v5',
  closings: 'M5 4h14v16H5zM8 8h8M8 12h3M8 16h3M13.5 14.5l1.5 1.5 3-3.5',
  clients:
    'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6M18 14.5a6.5 6.5 0 0 1 3.5 5.5',
  people: 'M12 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM5 20a7 7 0 0 1 14 0',
  account: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21a8 8 0 0 1 16 0',
  events: 'M12 12v8M8.5 15a5 5 0 1 1 7 0M5.5 18a9 9 0 1 1 13 0',
  webhooks: 'M12 3v9M8 8l4 4 4-4M4 15v5h16v-5',
  activity: 'M3 12h4l3 8 4-16 3 8h4',
  flows: 'M4 7h11M12 4l3 3-3 3M20 17H9M12 14l-3 3 3 3',
  destinations: 'M4 12h9M10 8l4 4-4 4M17 4h3v16h-3',
  errors: 'M12 3 3 8v8l9 5 9-5V8zM12 8v5M12 16v.1',
  workbench: 'M4 20l1-5L16 4l4 4L9 19zM13 7l4 4',
  item: 'M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5 21 21',
  warning: 'M12 4 2.5 20h19zM12 10v4M12 17v.1',
  check: 'M4 12.5 10 18 20 6',
  leave: 'M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9',
}

/** The sign of the service, beside its name. */
export function brandMark() {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false"><rect width="32" height="32" rx="8" fill="#0b6b66"></rect><path d="M5 21c4-9 18-9 22 0M5 21h22M10.5 16v5M16 14.2V21M21.5 16v5" fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round"></path></svg>`
}

/** A drawn sign beside a text that says the same, so it is hidden from screen readers. */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${shapes[name]}></path></svg>`
}
