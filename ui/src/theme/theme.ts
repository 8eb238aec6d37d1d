import {
  ActionIcon,
  Badge,
  Button,
  createTheme,
  defaultVariantColorsResolver,
  type MantineColorsTuple,
  Modal,
  NumberInput,
  Paper,
  PasswordInput,
  Select,
  TextInput,
  Tooltip,
} from "@mantine/core";

/** The accent in ten steps: light mode uses the 6th, dark mode the 4th. */
const accent: MantineColorsTuple = [
  "#e8ebfc",
  "#cdd3f8",
  "#b3bcfb",
  "#a5b1ff",
  "#98a6ff",
  "#5a69db",
  "#3446c4",
  "#2d3db0",
  "#26349a",
  "#1d2980",
];

/** Mantine's greys in dark mode, so that its own parts sit on our surfaces. */
const dark: MantineColorsTuple = [
  "#e9ecf1",
  "#b6bfcb",
  "#939dab",
  "#6b7686",
  "#2c333d",
  "#1f252d",
  "#171b21",
  "#12161b",
  "#0f1216",
  "#0b0d10",
];

export const theme = createTheme({
  fontFamily: "var(--font)",
  fontFamilyMonospace: "var(--mono)",
  primaryColor: "accent",
  primaryShade: { light: 6, dark: 4 },
  // On the accent, text is white in light mode and nearly black in dark mode.
  variantColorResolver: (input) => {
    const resolved = defaultVariantColorsResolver(input);
    const isAccent = input.color === undefined || input.color === "accent";
    return input.variant === "filled" && isAccent ? { ...resolved, color: "var(--on-accent)" } : resolved;
  },
  colors: { accent, dark },
  defaultRadius: 6,
  cursorType: "pointer",
  fontSizes: { xs: "12px", sm: "13px", md: "14px", lg: "16px", xl: "20px" },
  spacing: { xs: "8px", sm: "12px", md: "16px", lg: "24px", xl: "32px" },
  headings: { fontFamily: "var(--font)", fontWeight: "600" },
  respectReducedMotion: true,
  components: {
    Button: Button.extend({ defaultProps: { size: "sm", variant: "default" } }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "default" } }),
    Paper: Paper.extend({ defaultProps: { radius: 8, withBorder: true } }),
    TextInput: TextInput.extend({ defaultProps: { size: "sm" } }),
    PasswordInput: PasswordInput.extend({ defaultProps: { size: "sm" } }),
    NumberInput: NumberInput.extend({ defaultProps: { size: "sm" } }),
    Select: Select.extend({ defaultProps: { size: "sm", comboboxProps: { shadow: "md" } } }),
    Badge: Badge.extend({ defaultProps: { tt: "none", fw: 500, radius: "xl" } }),
    Modal: Modal.extend({ defaultProps: { radius: 8, centered: true }, styles: { title: { fontWeight: 600 } } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 200, withArrow: true } }),
  },
});
