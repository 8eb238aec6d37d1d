import { SegmentedControl, useMantineColorScheme } from "@mantine/core";
import { Card } from "@/components/Card";
import { DENSITIES, useDensity } from "@/frame/density";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";

const { preferences: words } = text;

export function PreferencesTab() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [density, setDensity] = useDensity();
  return (
    <>
      <Card title={words.theme} note={words.themeHint}>
        <SegmentedControl
          aria-label={words.theme}
          value={colorScheme}
          onChange={(next) => setColorScheme(next as typeof colorScheme)}
          data={[
            { value: "light", label: words.light },
            { value: "dark", label: words.dark },
            { value: "auto", label: words.auto },
          ]}
        />
      </Card>
      <Card title={words.density} note={words.densityHint}>
        <SegmentedControl
          aria-label={words.density}
          value={density}
          onChange={(next) => setDensity(next as typeof density)}
          data={DENSITIES.map((value) => ({ value, label: words[value] }))}
        />
      </Card>
      <Card title={words.keys}>
        <p className={classes.hint}>{words.keysHint}</p>
      </Card>
    </>
  );
}
