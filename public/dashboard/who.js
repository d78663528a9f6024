import { t } from '../shared/i18n.js'

/** Who did something, as the service tells it: the name of a person or key, or what it was. */
export function whoText({ kind, name }) {
  if (kind === 'person') return name
  if (kind === 'key') return name ? `${t('who.key')} ${name}` : t('who.key')
  return t(`who.${kind}`)
}
