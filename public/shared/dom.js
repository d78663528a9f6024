/**
 * A small virtual DOM. Views describe what should be on the page; `patch` changes only what differs and moves no node
 * that may stay, so focus, selection, scroll and what somebody is typing survive every refresh.
 *
 * Text always becomes a text node and there is no way to pass markup: names from outside cannot turn into elements.
 */

const svgTags = new Set(['svg', 'path'])
const liveProperties = new Set(['value', 'checked', 'disabled', 'selected', 'indeterminate'])

/** What each node was made from. */
const made = new WeakMap()

/**
 * Describes an element. `props` are attributes, event handlers (`onclick`), the live properties above, and `key`, which
 * ties an entry of a list to its node. Children that are null, undefined or false are left out. What is in an element with
 * `draw` is left to that function, which gets the element each time.
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: wanted(children) }
}

/** Makes the children of `parent` what `children` describes. */
export function patch(parent, children) {
  const next = wanted([children])
  const keyed = new Map()
  const loose = []
  for (const node of parent.childNodes) {
    const key = made.get(node)?.props?.key
    if (key === undefined) loose.push(node)
    else keyed.set(key, node)
  }
  const reused = new Set()
  const nodes = next.map((child) => {
    const old = take(child, keyed, loose)
    if (old) reused.add(old)
    return old ? update(old, child) : create(child)
  })
  // Leavers go first: then nodes that stay are in place already, unless their order really changed.
  for (const node of [...parent.childNodes]) if (!reused.has(node)) node.remove()
  let at = parent.firstChild
  for (const node of nodes) {
    if (node === at) at = at.nextSibling
    else parent.insertBefore(node, at)
  }
}

function wanted(children) {
  return children
    .flat(Number.POSITIVE_INFINITY)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== '')
    .map((child) => (typeof child === 'object' ? child : String(child)))
}

function take(child, keyed, loose) {
  const key = child.props?.key
  if (key !== undefined) {
    const node = keyed.get(key)
    keyed.delete(key)
    return node !== undefined && made.get(node).tag === child.tag ? node : undefined
  }
  const index = loose.findIndex((node) => made.get(node)?.tag === child.tag)
  return index === -1 ? undefined : loose.splice(index, 1)[0]
}

function create(child) {
  if (typeof child === 'string') {
    const text = document.createTextNode(child)
    made.set(text, {})
    return text
  }
  const element = svgTags.has(child.tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', child.tag)
    : document.createElement(child.tag)
  return fill(element, {}, child)
}

function update(node, child) {
  if (typeof child === 'string') {
    if (node.data !== child) node.data = child
    return node
  }
  return fill(node, made.get(node).props, child)
}

function fill(element, before, child) {
  const chosen = child.tag === 'select' && made.has(element) ? element.value : undefined
  // A select takes its value only once its options are there.
  if (!child.props.draw) patch(element, child.children)
  // When the chosen option's node gives way to another one of the same value, the browser chooses the first of all.
  if (chosen !== undefined && [...element.options].some(({ value }) => value === chosen)) {
    element.value = chosen
  }
  for (const name of new Set([...Object.keys(before), ...Object.keys(child.props)])) {
    if (name !== 'key' && name !== 'draw' && before[name] !== child.props[name]) {
      setProp(element, name, child.props[name])
    }
  }
  made.set(element, { tag: child.tag, props: child.props })
  // A drawing needs its room: a new element gets it only once the page holds it.
  if (child.props.draw) requestAnimationFrame(() => child.props.draw(element))
  return element
}

function setProp(element, name, value) {
  const absent = value === null || value === undefined || value === false
  if (name.startsWith('on')) element[name] = value ?? null
  else if (liveProperties.has(name))
    element[name] = absent ? (name === 'value' ? '' : false) : value
  else if (absent) element.removeAttribute(name)
  else element.setAttribute(name, value === true ? '' : String(value))
}
