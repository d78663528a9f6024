/**
 * What may be written at a place of a flow file, by its JSON schema: `{ from, options }`, or null where nothing is known. Lines and
 * columns count from 0. It goes by indentation, so that it also works while the text is no YAML.
 */
export function completionsAt(schema, lines, line, column) {
  const before = lines[line].slice(0, column)
  const asValue = /^(\s*(?:- +)*)(["']?[\w.-]+["']?):\s+(\S*)$/.exec(before)
  if (asValue) {
    const [, lead, key, typed] = asValue
    const schemas = schemasOf(schema, lines, line, lead.length)
    return offer(values(schemas.flatMap((one) => childrenOf(one, key))), column - typed.length)
  }
  const asKey = /^(\s*(?:- +)*)([\w-]*)$/.exec(before)
  if (!asKey) return null
  const [, lead, typed] = asKey
  const schemas = schemasOf(schema, lines, line, lead.length)
  const known = mapAround(lines, line, lead.length)
  return offer(keys(schemas, known), column - typed.length)
}

function offer(options, from) {
  return options.length > 0 ? { from, options } : null
}

function keys(schemas, known) {
  const found = new Map()
  for (const { properties = {}, required = [] } of schemas) {
    for (const [label, child] of Object.entries(properties)) {
      if (known.has(label) || found.has(label)) continue
      const isGroup = typesOf(child).every((type) => type === 'object' || type === 'array')
      found.set(label, {
        label,
        apply: isGroup ? `${label}:` : `${label}: `,
        detail: detailOf(child),
        info: child.description,
        isNeeded: required.includes(label),
      })
    }
  }
  return [...found.values()]
}

function values(schemas) {
  const all = schemas.flatMap(alternatives)
  const found = new Map()
  for (const one of all) {
    const given = one.enum ?? (one.const === undefined ? [] : [one.const])
    const either = one.type === 'boolean' && given.length === 0 ? [true, false] : given
    for (const value of either) {
      const label = String(value)
      found.set(label, { label, apply: label, detail: undefined, info: one.description })
    }
  }
  return [...found.values()]
}

function detailOf(schema) {
  const { default: standard } = schema
  const isPlain = ['string', 'number', 'boolean'].includes(typeof standard)
  return isPlain && standard !== '' ? `= ${standard}` : undefined
}

function typesOf(schema) {
  return alternatives(schema).map(({ type }) => type)
}

function alternatives(schema) {
  const several = schema.anyOf ?? schema.oneOf
  return several ? several.flatMap(alternatives) : [schema]
}

/** Of alternatives those whose constants suit what the file says. */
function suited(schema, known) {
  const all = alternatives(schema)
  const fit = all.filter(({ properties = {} }) =>
    Object.entries(properties).every(([name, { const: constant }]) => {
      const given = known.get(name)
      return constant === undefined || !given || given === String(constant)
    }),
  )
  return fit.length > 0 ? fit : all
}

function childrenOf({ properties, additionalProperties, items }, step) {
  if (step === '[]') return items ? [items] : []
  if (properties && Object.hasOwn(properties, step)) return [properties[step]]
  return typeof additionalProperties === 'object' ? [additionalProperties] : []
}

/** The schemas of the map that has a key at this column. */
function schemasOf(schema, lines, line, column) {
  let found = [schema]
  for (const { step, known } of wayTo(lines, line, column)) {
    found = found.flatMap((one) => suited(one, known).flatMap((each) => childrenOf(each, step)))
  }
  const known = mapAround(lines, line, column)
  return found.flatMap((one) => suited(one, known))
}

/** The marks of a line: its dashes, and its key with the scalar behind it. */
function marksOf(text) {
  const [, lead = '', rest = ''] = /^(\s*(?:- +|-$)*)(.*)$/.exec(text) ?? []
  if (rest.startsWith('#') || text.trim() === '') return []
  const marks = [...lead.matchAll(/-/g)].map(({ index }) => ({ at: index, isDash: true }))
  const [, key, value] = /^["']?([\w.-]+)["']?:(?:\s+(.*))?$/.exec(rest) ?? []
  if (key !== undefined) marks.push({ at: lead.length, key, value: scalarOf(value) })
  return marks
}

function scalarOf(text = '') {
  return text
    .replace(/\s+#.*$/, '')
    .trim()
    .replace(/^(["'])(.*)\1$/, '$2')
}

/** The keys and list places that lead to a map, outermost first, each with what the map around it says. */
function wayTo(lines, line, column) {
  const way = []
  let limit = column
  /** The column of the dash of the list that one is in. */
  let dash
  for (let at = line; at >= 0; at--) {
    for (const { at: place, isDash, key } of marksOf(lines[at]).reverse()) {
      if (at === line && place >= column) continue
      if (isDash) {
        if (place >= limit || dash !== undefined) continue
        way.unshift({ step: '[]', known: new Map() })
        dash = place
      } else if (dash === undefined ? place < limit : place <= dash) {
        way.unshift({ step: key, known: mapAround(lines, at, place) })
        limit = place
        dash = undefined
      }
    }
  }
  return way
}

/** The scalars of the map that has a key at this column of this line. */
function mapAround(lines, line, column) {
  const known = new Map()
  const take = (marks) => {
    for (const { at, key, value } of marks) {
      if (key !== undefined && at === column) known.set(key, value)
    }
  }
  const leaves = (marks) => marks.length > 0 && marks[0].at < column
  const own = marksOf(lines[line])
  take(own)
  if (!leaves(own)) {
    for (let at = line - 1; at >= 0; at--) {
      const marks = marksOf(lines[at])
      take(marks)
      if (leaves(marks)) break
    }
  }
  for (let at = line + 1; at < lines.length; at++) {
    const marks = marksOf(lines[at])
    if (leaves(marks)) break
    take(marks)
  }
  return known
}
