import { ask } from '../shared/dialog.js'
import { code, name } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts } from '../shared/parts.js'

/** Asks, and then switches the terminals of a box to `PDV` or `STANDALONE`; `box` is `{client, caja_id, name, terminals}`. */
export function askMode(app, box, mode) {
  const { client, caja_id: id } = box
  ask({
    title: t(`mode.to.${mode}`),
    content: () => html`
      <p>${t(`mode.means.${mode}`)}</p>
      ${facts([
        [t('order.box'), [name(box.name), box.name.includes(id) ? null : html` ${code(id)}`]],
        [t('mode.terminals'), box.terminals.map((terminal) => html`<p>${code(terminal)}</p>`)],
      ])}
      <p>${t('mode.restart')}</p>`,
    confirm: t('mode.confirm'),
    async run() {
      const { terminals_updated: updated } = await app.api.patch('/terminals/operating-mode', {
        query: app.clientQuery(client),
        body: { caja_id: id, operating_mode: mode },
      })
      toast(count('mode.done', updated))
      app.reload()
    },
  })
}
