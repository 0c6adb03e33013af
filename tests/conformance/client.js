// Makes each call that the documentation of the npm package braze-api shows, but for those that
// the page Compatibility leaves out. A call has passed if its effect is there as well.
//
//     client.js BASE_URL KEY PACKAGES
//
// Prints a line for each: its name, a tab, and "passed" or what went wrong. $LONGSHORE is the
// program that shows the effects.
const { execFileSync } = require('child_process')
const { isDeepStrictEqual } = require('util')
const [base, key, packages] = process.argv.slice(2)
const { Braze } = require(require.resolve('braze-api', { paths: [packages] }))

const campaign_id = '3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60'
const transactional = '4d8e1b63-9a2f-4d68-8b4f-1e6c2d3f8a71'
const canvas_id = '0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11'
const segment_id = '8a1d0f5e-2c3b-4d6a-9e7f-0123456789ab'
const subscription_group_id = '7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90'
const email_template_id = '9b2f6c1e-0d3a-4e57-8c41-5a7d2e9f6b10'
const schedule = { time: '2127-01-01T09:00:00Z', in_local_time: false, at_optimal_time: false }
const alias = (alias_name) => ({ alias_name, alias_label: 'crm' })
const webhook = { webhook: { url: 'https://hooks.example.com/', request_method: 'POST', body: '{}' } }
const recipients = [{ external_user_id: 'ann', trigger_properties: { seats: 2 } }]
const audience = {
  AND: [{ custom_attribute: { custom_attribute_name: 'tier', comparison: 'equals', value: 'gold' } }],
}

const is_success = (answer) => {
  if (answer.message !== 'success') throw new Error(JSON.stringify(answer))
  return answer
}
const has = (name) => (answer) => {
  if (!(name in is_success(answer))) throw new Error(`no ${name}: ${JSON.stringify(answer)}`)
  return answer
}

// What a command of the program shows as JSON; undefined if it fails, as for an unknown user.
const shown = (...command) => {
  try {
    return JSON.parse(execFileSync(process.env.LONGSHORE, [...command, '--json'], { stdio: 'pipe' }))
  } catch {
    return undefined
  }
}
const user = (id) => shown('users', 'show', id)
const custom = (id, name) => user(id)?.custom_attributes?.[name]
const state_of = (schedule_id) => shown('schedules', 'show', schedule_id)?.state
const export_state = async (prefix) => {
  const headers = { authorization: `Bearer ${key}` }
  return (await (await fetch(`${base}/users/export/${prefix}`, { headers })).json()).state
}

// Waits for an effect, which workers have soon after the response.
const effect = async (what, read, expected) => {
  let is
  for (let attempt = 0; attempt < 60; attempt++) {
    is = await read()
    if (isDeepStrictEqual(is, expected)) return
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`${what} is ${JSON.stringify(is)}, not ${JSON.stringify(expected)}`)
}
const group_state = async (braze) =>
  (await braze.subscription.status.get({ subscription_group_id, external_id: ['ann'] })).status.ann
const names_of = (aliases) => (aliases ?? []).map((alias) => alias.alias_name).sort()
// The send is known to the worker, which has looked for its users.
const is_sent = ({ dispatch_id }) =>
  effect('the send', () => shown('dispatches', 'show', dispatch_id) ? 'there' : 'missing', 'there')

const cases = {
  'users.track': (braze) => braze.users.track({
    attributes: [{ external_id: 'ann', string_attribute: 'fruit', integer_attribute: 25, braze_id: null }],
    events: [{ external_id: 'ann', name: 'rented_movie', time: '2024-07-16T19:20:30+1:00' }],
    purchases: [{
      user_alias: alias('c-1'), product_id: 'tea', currency: 'USD', price: 12.12,
      time: '2024-07-16T19:20:45+01:00',
    }],
  }).then(is_success).then(async (answer) => {
    const { attributes_processed, events_processed, purchases_processed, errors } = answer
    const counts = [attributes_processed, events_processed, purchases_processed, errors]
    if (!isDeepStrictEqual(counts, [1, 1, 1, undefined])) throw new Error(JSON.stringify(answer))
    await effect('the attribute', () => custom('ann', 'string_attribute'), 'fruit')
  }),
  'users.alias.new': (braze) => braze.users.alias.new({
    user_aliases: [{ external_id: 'ann', ...alias('c-1') }, alias('c-2')],
  }).then(has('aliases_processed'))
    .then(() => effect('the alias', () => names_of(user('ann').user_aliases), ['c-1'])),
  'users.alias.update': (braze) => braze.users.alias.update({
    alias_updates: [{ alias_label: 'crm', old_alias_name: 'c-1', new_alias_name: 'c-3' }],
  }).then(is_success)
    .then(() => effect('the alias', () => names_of(user('ann').user_aliases), ['c-3'])),
  'users.identify': (braze) => braze.users.identify({
    aliases_to_identify: [{ external_id: 'bob', user_alias: alias('c-2') }],
  }).then(has('aliases_processed'))
    .then(() => effect('the alias', () => names_of(user('bob')?.user_aliases), ['c-2'])),
  'users.identify by email': (braze) => braze.users.track({
    attributes: [{ email: 'eve@example.com', _update_existing_only: false, tier: 'gold' }],
  }).then(() => effect('the user', () => custom('eve@example.com', 'tier'), 'gold')).then(() => braze.users.identify({
    emails_to_identify: [{ external_id: 'eve', email: 'eve@example.com', prioritization: ['unidentified'] }],
  })).then(has('aliases_processed')).then(() => effect('the user', () => user('eve')?.email, 'eve@example.com')),
  'users.merge': async (braze) => {
    is_success(await braze.users.track({ attributes: [{ external_id: 'old', of_old: true }] }))
    await effect('the user', () => custom('old', 'of_old'), true)
    is_success(await braze.users.merge({ merge_updates: [{
      identifier_to_merge: { external_id: 'old' }, identifier_to_keep: { external_id: 'ann' },
    }] }))
    await effect('the attribute', () => custom('ann', 'of_old'), true)
    await effect('the merged user', () => user('old'), undefined)
  },
  'users.external_ids.rename': async (braze) => {
    is_success(await braze.users.track({ attributes: [{ external_id: 'cay', of_cay: true }] }))
    await effect('the user', () => custom('cay', 'of_cay'), true)
    has('external_ids')(await braze.users.external_ids.rename({
      external_id_renames: [{ current_external_id: 'cay', new_external_id: 'cay-2' }],
    }))
    await effect('the id', () => user('cay-2')?.external_id, 'cay-2')
  },
  'users.external_ids.remove': (braze) =>
    braze.users.external_ids.remove({ external_ids: ['cay'] }).then(has('removed_ids'))
      .then(() => effect('the former id', () => user('cay'), undefined)),
  'users.delete': async (braze) => {
    is_success(await braze.users.track({ attributes: [{ external_id: 'dan', of_dan: true }] }))
    await effect('the user', () => custom('dan', 'of_dan'), true)
    has('deleted')(await braze.users.delete({ external_ids: ['dan'], braze_ids: [] }))
    await effect('the user', () => user('dan'), undefined)
  },
  'users.export.global_control_group': (braze) => braze.users.export.global_control_group({
    fields_to_export: ['external_id', 'braze_id', 'email'], output_format: 'zip',
  }).then(has('object_prefix')).then(({ object_prefix }) => effect(
    'the export', () => export_state(object_prefix), 'done',
  )),
  'users.export.segment': (braze) => braze.users.export.segment({
    segment_id, fields_to_export: ['external_id', 'braze_id', 'email'], output_format: 'zip',
  }).then(has('object_prefix')).then(({ object_prefix }) => effect(
    'the export', () => export_state(object_prefix), 'done',
  )),
  'users.export.ids': (braze) => braze.users.export.ids({
    external_ids: ['ann', 'nobody'], user_aliases: [alias('c-3')], email_address: 'eve@example.com',
    fields_to_export: ['external_id', 'braze_id'],
  }).then(has('users')).then(({ users, invalid_user_ids }) => {
    const seen = [users.map((user) => user.external_id), invalid_user_ids]
    if (!isDeepStrictEqual(seen, [['ann', 'eve'], ['nobody']])) throw new Error(JSON.stringify(seen))
    if (!users.every((user) => user.braze_id)) throw new Error('no braze_id')
  }),
  'users.export.ids by braze_id': async (braze) => {
    const braze_id = user('ann').service_id
    const { users } = await braze.users.export.ids({ braze_id }).then(has('users'))
    if (users.length !== 1 || users[0].external_id !== 'ann') throw new Error(JSON.stringify(users))
  },

  'subscription.status.set': (braze) => braze.subscription.status.set({
    subscription_group_id, subscription_state: 'subscribed', external_id: ['ann'],
  }).then(is_success).then(() => effect('the state', () => group_state(braze), 'Subscribed')),
  'subscription.status.set by phone is refused': (braze) => braze.subscription.status.set({
    subscription_group_id, subscription_state: 'unsubscribed', external_id: ['ann'],
    phone: ['+15550100'],
  }).then(
    () => { throw new Error('it was not refused') },
    (error) => { if (error.status !== 400) throw error },
  ).then(() => effect('the state', () => group_state(braze), 'Subscribed')),
  'v2.subscription.status.set': (braze) => braze.v2.subscription.status.set({
    subscription_groups: [{
      subscription_group_id, subscription_state: 'unsubscribed', external_ids: ['ann'],
    }],
  }).then(is_success).then(() => effect('the state', () => group_state(braze), 'Unsubscribed')),
  'subscription.status.get': (braze) => braze.subscription.status.get({
    subscription_group_id, external_id: ['ann', 'nobody'],
  }).then(has('status')).then(({ status }) => {
    if (!isDeepStrictEqual(status, { ann: 'Unsubscribed', nobody: 'Unknown' })) throw new Error(JSON.stringify(status))
  }),

  'catalogs.synchronous.list': (braze) => braze.catalogs.synchronous.list().then(has('catalogs')),
  'catalogs.synchronous.items': async (braze) => {
    const ids = []
    for await (const item of braze.catalogs.synchronous.items({ catalog_name: 'restaurants' })) {
      ids.push(item.id)
    }
    if (ids.length !== 120 || new Set(ids).size !== 120) throw new Error(`${ids.length} items`)
  },
  'catalogs.synchronous.item': (braze) => braze.catalogs.synchronous.item({
    catalog_name: 'restaurants', item_id: 'r100',
  }).then((answer) => {
    if (answer.items[0].City !== 'Oslo') throw new Error(JSON.stringify(answer))
  }),

  'campaigns.list': (braze) =>
    braze.campaigns.list({ page: 0, include_archived: false, sort_direction: 'desc' }).then(has('campaigns')),
  'campaigns.details': (braze) => braze.campaigns.details({ campaign_id }).then(has('channels')),
  'campaigns.trigger.send': (braze) => braze.campaigns.trigger.send({
    campaign_id, send_id: 'send', trigger_properties: { a: 1 }, broadcast: false, recipients,
  }).then(has('dispatch_id')).then(is_sent),
  'campaigns.trigger.send to an audience': (braze) => braze.campaigns.trigger.send({
    campaign_id, trigger_properties: { a: 1 }, broadcast: true, audience,
  }).then(has('dispatch_id')).then(is_sent),
  'campaigns.trigger.schedule.create, update and delete': async (braze) => {
    const made = await braze.campaigns.trigger.schedule.create({ campaign_id, recipients, schedule })
    const { schedule_id } = has('schedule_id')(made)
    const later = { time: '2127-02-01T09:00:00Z' }
    is_success(await braze.campaigns.trigger.schedule.update({ campaign_id, schedule_id, schedule: later }))
    is_success(await braze.campaigns.trigger.schedule.delete({ campaign_id, schedule_id }))
    await effect('the schedule', () => state_of(schedule_id), 'cancelled')
  },

  'canvas.list': (braze) => braze.canvas.list({ page: 0 }).then(has('canvases')),
  'canvas.trigger.send': (braze) => braze.canvas.trigger.send({
    canvas_id, canvas_entry_properties: { a: 1 }, broadcast: false,
    recipients: [{ external_user_id: 'ann' }],
  }).then(has('dispatch_id')).then(is_sent),
  'canvas.trigger.schedule.create, update and delete': async (braze) => {
    const made = await braze.canvas.trigger.schedule.create({ canvas_id, recipients, schedule })
    const { schedule_id } = has('schedule_id')(made)
    const later = { time: '2127-02-01T09:00:00Z' }
    is_success(await braze.canvas.trigger.schedule.update({ canvas_id, schedule_id, schedule: later }))
    is_success(await braze.canvas.trigger.schedule.delete({ canvas_id, schedule_id }))
    await effect('the schedule', () => state_of(schedule_id), 'cancelled')
  },

  'messages.send': (braze) => braze.messages.send({
    external_user_ids: ['ann'], user_aliases: [alias('c-3')], campaign_id, messages: webhook,
    recipient_subscription_state: 'all', override_frequency_capping: false,
  }).then(has('dispatch_id')).then(is_sent),
  'messages.schedule.create, update and delete': async (braze) => {
    const made = await braze.messages.schedule.create({
      external_user_ids: ['ann'], schedule, messages: webhook,
    })
    const { schedule_id } = has('schedule_id')(made)
    is_success(await braze.messages.schedule.update({
      schedule_id, schedule: { time: '2127-02-01T09:00:00Z' }, messages: webhook,
    }))
    is_success(await braze.messages.schedule.delete({ schedule_id }))
    await effect('the schedule', () => state_of(schedule_id), 'cancelled')
  },
  'messages.schedule.create, an email template': async (braze) => {
    const email = { app_id: 'web', from: 'acme@example.com', email_template_id }
    const made = await braze.messages.schedule.create({
      external_user_ids: ['ann'], schedule, messages: { email },
    })
    const { schedule_id } = has('schedule_id')(made)
    const subject = () => shown('schedules', 'show', schedule_id)?.request.messages.email.subject
    await effect('the subject', subject, 'Welcome')
  },
  'messages.scheduled_broadcasts': async (braze) => {
    await braze.campaigns.trigger.schedule.create({ campaign_id, broadcast: true, audience, schedule })
    const answer = await braze.messages.scheduled_broadcasts({ end_time: '2128-01-01T00:00:00Z' })
    if (is_success(answer).scheduled_broadcasts.length === 0) throw new Error('none')
  },

  'segments.list': (braze) =>
    braze.segments.list({ page: 0, sort_direction: 'desc' }).then(has('segments')),
  'segments.details': (braze) => braze.segments.details({ segment_id }).then(has('name')),

  'transactional.v1.campaigns.send': (braze) => braze.transactional.v1.campaigns.send(transactional, {
    external_send_id: `send-${process.pid}`, trigger_properties: { a: 1 },
    recipient: { external_user_id: 'ann', attributes: { email: 'ann@example.com' } },
  }).then(async (answer) => {
    if (!answer.dispatch_id) throw new Error(JSON.stringify(answer))
    await is_sent(answer)
    await effect('the address', () => user('ann').email, 'ann@example.com')
  }),

  'an error': (braze) => braze.campaigns.details({ campaign_id: 'none' }).then(
    () => { throw new Error('it was not refused') },
    (error) => { if (error.status !== 404) throw error },
  ),
}

async function main() {
  const braze = new Braze(base, key)
  for (const [name, call] of Object.entries(cases)) {
    const outcome = await call(braze).then(() => 'passed', (error) => `failed: ${error.status} ${error.message}`)
    console.log(`${name}\t${outcome}`)
  }
}

main()
